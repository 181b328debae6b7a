// Bytes in rows, a page at a time, each of which knows the field that has it.

import { h } from './dom.js'

const PAGE = 2048 // Bytes.
const STEPS = { ArrowRight: 1, ArrowLeft: -1 }

/** Return `{element, show, light}`; `point` is called with the span of the byte pointed at. */
export function hexView (point) {
  const grid = h('div', {
    class: 'hex', tabindex: 0, role: 'group', 'aria-label': 'Bytes; the arrow keys move',
    onpointerover: (event) => over(event.target), onkeydown: key, onclick: (event) => over(event.target)
  })
  const where = h('span', {})
  const back = h('button', { type: 'button', onclick: () => turn(first - PAGE) }, 'Earlier bytes')
  const on = h('button', { type: 'button', onclick: () => turn(first + PAGE) }, 'Later bytes')
  const pages = h('div', { class: 'pages', hidden: true }, back, on, where)
  let data = new Uint8Array()
  let spans = []
  let fault
  let first = 0
  let here = 0
  let lit = [0, 0]

  function spanAt (at) {
    let low = 0
    let high = spans.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (spans[middle].end <= at) low = middle + 1
      else high = middle
    }
    return spans[low]?.start <= at ? spans[low] : undefined
  }

  function over (target) {
    if (target.dataset.at !== undefined) move(Number(target.dataset.at))
  }

  function move (at) {
    here = at
    const span = spanAt(at)
    paint(span?.start ?? at, span?.end ?? at + 1)
    point(span)
  }

  function key (event) {
    const width = rowLength()
    const step = STEPS[event.key] ?? { ArrowDown: width, ArrowUp: -width }[event.key]
    if (step === undefined || data.length === 0) return
    event.preventDefault()
    const at = Math.max(0, Math.min(data.length - 1, here + step))
    if (at < first || at >= first + PAGE) draw(at)
    move(at)
    grid.querySelector(`[data-at="${at}"]`)?.scrollIntoView({ block: 'nearest' })
  }

  function paint (start, end) {
    lit = [start, end]
    for (const byte of grid.querySelectorAll('b')) {
      const at = Number(byte.dataset.at)
      byte.classList.toggle('lit', at >= start && at < end)
      byte.classList.toggle('here', at === here)
    }
  }

  function turn (at) {
    draw(Math.max(0, Math.min(at, data.length - 1)))
    paint(...lit)
  }

  function draw (at) {
    first = at - at % PAGE
    const width = rowLength()
    const rows = []
    for (let start = first; start < Math.min(first + PAGE, data.length); start += width) {
      const row = data.subarray(start, Math.min(start + width, first + PAGE))
      rows.push(h('div', {}, h('span', { class: 'at' }, start.toString(16).padStart(4, '0')),
        Array.from(row, (byte, index) => h('b', {
          'data-at': start + index, class: start + index === fault && 'fault'
        }, byte.toString(16).padStart(2, '0'))),
        h('span', { class: 'text' }, Array.from(row, (byte) =>
          byte > 32 && byte < 127 ? String.fromCharCode(byte) : '·').join(''))))
    }
    grid.replaceChildren(...rows)
    pages.hidden = data.length <= PAGE
    back.disabled = first === 0
    on.disabled = first + PAGE >= data.length
    where.textContent = `${first} to ${Math.min(first + PAGE, data.length) - 1} of ${data.length}`
  }

  return {
    element: h('div', {}, pages, grid),
    show (bytes, found, wrong) {
      [data, fault, here] = [bytes, wrong, 0]
      spans = found.filter(({ start, end, inflated }) => end > start && !inflated)
      draw(0)
    },
    light (start, end) {
      here = start
      if (start < first || start >= first + PAGE) draw(start)
      paint(start, end)
      grid.querySelector('.lit')?.scrollIntoView({ block: 'nearest' })
    }
  }
}

function rowLength () {
  return matchMedia('(max-width: 30rem)').matches ? 8 : 16
}
