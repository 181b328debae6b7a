// Fields in the tree that their paths make. What is in a closed branch is not built.

import { h } from './dom.js'

const VALUE_MAX = 80 // Characters.
const OPEN_MAX = 200 // Fields of a message that is shown open.
const CHILDREN_MAX = 1000

/** Return `{element, show, light}`; `point` is called with first byte, end and words. */
export function treeView (point) {
  const element = h('div', { class: 'tree', role: 'group', 'aria-label': 'Fields' })
  let nodes = new Map()

  function row (node) {
    const tell = () => point(node.start, node.end, node.words)
    const listeners = { onpointerenter: tell, onfocus: tell, onclick: tell }
    if (!node.inner.length) return (node.shown = h('button', { type: 'button', ...listeners }, node.words))
    const label = h('summary', listeners, node.words)
    const branch = h('details', { ontoggle: () => fill(node, branch) }, label)
    node.branch = branch
    node.shown = label
    if (node.open) {
      branch.open = true
      fill(node, branch)
    }
    return branch
  }

  function fill (node, branch) {
    if (node.filled || !branch.open) return
    node.filled = true
    branch.append(...node.inner.slice(0, CHILDREN_MAX).map(row))
    const more = node.inner.length - CHILDREN_MAX
    if (more > 0) branch.append(h('p', { class: 'quiet' }, `and ${more} more`))
  }

  return {
    element,
    show (spans) {
      const roots = treeOf(spans)
      nodes = new Map()
      const note = (node) => {
        node.open = node.depth === 0 || spans.length <= OPEN_MAX
        if (node.span) nodes.set(node.span, node)
        node.inner.forEach(note)
      }
      roots.forEach(note)
      element.replaceChildren(...roots.map(row))
    },
    light (span) {
      element.querySelector('.lit')?.classList.remove('lit')
      let node = nodes.get(span)
      while (node && !node.shown?.checkVisibility()) node = node.above
      node?.shown.classList.add('lit')
      node?.shown.scrollIntoView({ block: 'nearest' })
    }
  }
}

/** Return spans as trees: a root for each part of a frame; a branch has the bytes of its leaves. */
export function treeOf (spans) {
  const roots = []
  for (const span of spans) {
    if (roots.at(-1)?.name !== span.part) roots.push(branch(span.part, undefined, span))
    let node = roots.at(-1)
    for (const name of span.path.replaceAll('[', '.[').split('.').filter(Boolean)) {
      node.end = span.end
      const last = node.inner.at(-1)
      node.inner.push(...last?.name === name ? [] : [branch(name, node, span)])
      node = node.inner.at(-1)
    }
    node.end = span.end
    settle(node, span)
  }
  return roots
}

function branch (name, above, { start, end }) {
  return { name, above, depth: above ? above.depth + 1 : 0, start, end, inner: [], words: name }
}

/** Let a node be the leaf of a span, or give it one: a count and what it counts have one path. */
function settle (node, span) {
  if (span.wire === 'count' && node.depth > 0) {
    node.words = `${node.name} ${span.value === null ? 'null' : `[${span.value}]`}`
  }
  if (span.wire === 'length') node.words = `${node.name}: ${span.value} bytes`
  if (node.depth > 0 && !node.span && span.wire !== 'tag count') {
    node.span = span
    if (span.wire !== 'count' && span.wire !== 'length') node.words = `${node.name}: ${shown(span.value)} `
    return
  }
  const leaf = branch(span.wire, node, span)
  leaf.span = span
  leaf.words = `${span.wire}: ${shown(span.value)}`
  node.inner.push(leaf)
}

function shown (value) {
  if (value instanceof Uint8Array) return `${value.length} bytes`
  const text = typeof value === 'bigint' ? `${value}` : JSON.stringify(value) ?? ''
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : text
}
