// The page of bytes: hex and JSON that follow each other, and a tree beside the bytes.

import { isCapture, messages } from './capture.js'
import { CATALOGUE, decode, detect, encode, example, fromHex, JSON_BYTES_MAX, toHex } from './decode.js'
import { h } from './dom.js'
import { hexView } from './hex.js'
import { treeView } from './tree.js'

const HEX_SHOWN_MAX = 65_536 // Bytes; a text area with more is slow.
const FILE_MAX = 256 << 20

export async function bytes (name = '', version = '') {
  const page = new Page()
  if (Object.hasOwn(CATALOGUE, name)) await page.start(name, Number(version || CATALOGUE[name].lastVersion))
  else await page.sample()
  return page.content()
}

class Page {
  data = new Uint8Array()
  decoded = { spans: [], bodyOffset: 0, json: null, error: null }

  constructor () {
    const names = Object.keys(CATALOGUE).filter((name) => CATALOGUE[name].lastVersion >= CATALOGUE[name].firstVersion)
    this.kind = h('select', { id: 'kind', onchange: () => this.read() },
      h('option', { value: 'frame' }, 'a frame, with its header'),
      h('option', { value: 'message' }, 'a message alone'),
      h('option', { value: 'log' }, 'a log segment'))
    this.names = h('select', { id: 'name', onchange: () => this.choose(this.names.value) },
      names.map((name) => h('option', {}, name)))
    this.versions = h('select', { id: 'version', onchange: () => this.read() })
    this.hex = h('textarea', { id: 'hex', spellcheck: 'false', oninput: () => this.typed() })
    this.json = h('textarea', { id: 'json', spellcheck: 'false', oninput: () => this.edited() })
    this.note = h('p', { id: 'note', role: 'status' })
    this.lit = h('p', { id: 'lit', class: 'mono' }, 'Point at a byte or a field.')
    this.bytes = hexView((span) => this.light(span))
    this.tree = treeView((start, end, text) => this.lightBytes(start, end, text))
    this.captured = []
    this.capture = h('select', { id: 'capture', onchange: () => this.chooseCaptured() })
    this.captures = h('label', { for: 'capture', hidden: true }, 'Message of the capture', h('br'), this.capture)
    this.file = h('input', { id: 'file', type: 'file', onchange: () => this.take(this.file.files[0]) })
  }

  content () {
    const drop = h('div', {
      ondragover: (event) => { event.preventDefault(); drop.classList.add('drop') },
      ondragleave: () => drop.classList.remove('drop'),
      ondrop: (event) => {
        event.preventDefault()
        drop.classList.remove('drop')
        this.take(event.dataTransfer.files[0])
      }
    },
    h('p', {}, 'Paste hex, or drop a file: one frame, a capture (pcap, pcapng) or a .log segment. A request says what it is; of a response, choose the message and version. Nothing leaves this page.'),
    h('div', { class: 'form' },
      h('label', { for: 'kind' }, 'The bytes are', h('br'), this.kind),
      h('label', { for: 'name' }, 'Message', h('br'), this.names),
      h('label', { for: 'version' }, 'Version', h('br'), this.versions),
      h('label', { for: 'file' }, 'File', h('br'), this.file)),
    h('div', { class: 'form' }, this.captures),
    h('div', { class: 'two' },
      h('div', {}, h('label', { for: 'hex' }, 'Hex'), this.hex),
      h('div', {}, h('label', { for: 'json' }, 'JSON of the message: edit it to see its bytes'), this.json)),
    this.note)
    return [h('h1', {}, 'Bytes'), drop, h('h2', {}, 'Bytes and fields'), this.lit,
      h('div', { class: 'two' }, this.bytes.element, this.tree.element)]
  }

  /** A request that says what it is. */
  async sample () {
    this.hex.value = '00120003000000010002' + '6d6500' + '0261026200'
    await this.typed()
  }

  async start (name, version) {
    this.kind.value = 'message'
    this.pick(name, version)
    this.put(await example(name, this.version))
    await this.read()
  }

  get version () { return Number(this.versions.value) }

  pick (name, version) {
    const { firstVersion, lastVersion } = CATALOGUE[name]
    const length = lastVersion - firstVersion + 1
    this.names.value = name
    this.versions.replaceChildren(...Array.from({ length }, (_, at) => h('option', {}, String(firstVersion + at))))
    this.versions.value = version >= firstVersion && version <= lastVersion ? String(version) : String(lastVersion)
  }

  async choose (name) {
    this.pick(name, this.version)
    await this.read()
  }

  put (data) {
    this.captured = []
    this.captures.hidden = true
    this.data = data
    const shown = toHex(data.subarray(0, HEX_SHOWN_MAX)).replace(/(.{8})(?=.)/g, '$1 ')
    this.hex.value = shown + (data.length > HEX_SHOWN_MAX ? ' …' : '')
  }

  async take (file) {
    if (!file) return
    if (file.size > FILE_MAX) return this.say(`a file of ${file.size} bytes; this page reads up to ${FILE_MAX}`)
    let data = new Uint8Array(await file.arrayBuffer())
    const text = new TextDecoder('latin1').decode(data.subarray(0, 64))
    if (/^[0-9a-fx\\\s,:;]+$/i.test(text)) {
      try {
        data = fromHex(new TextDecoder().decode(data))
      } catch (error) {
        return this.say(error.message)
      }
    }
    if (isCapture(data)) return this.takeCapture(data)
    this.put(data)
    await this.found()
  }

  async takeCapture (data) {
    const found = messages(data)
    if (found.length === 0) return this.say('There is no whole request of Kafka in this capture.')
    this.capture.replaceChildren(...found.map(({ name, version, from, to }, at) =>
      h('option', { value: at }, `${at + 1}: ${name} ${version}, ${from} to ${to}`)))
    this.put(found[0].data)
    this.captured = found
    this.captures.hidden = false
    await this.chooseCaptured()
  }

  async chooseCaptured () {
    const found = this.captured
    const { data, name, version } = found[Number(this.capture.value)]
    this.put(data)
    this.captured = found
    this.captures.hidden = false
    this.kind.value = 'frame'
    this.pick(name, version)
    await this.read()
  }

  async typed () {
    try {
      this.data = fromHex(this.hex.value)
      this.captures.hidden = true
    } catch (error) {
      return this.say(error.message)
    }
    await this.found()
  }

  async found () {
    const is = detect(this.data)
    if (is) {
      this.kind.value = is.kind
      if (is.name) this.pick(is.name, is.version)
    } else if (!this.versions.value) this.pick('ApiVersionsRequest', 0)
    await this.read()
  }

  async read () {
    const data = this.data
    const found = await decode(data, this.kind.value, this.names.value, this.version)
    if (data !== this.data) return // Something else was put meanwhile.
    this.decoded = found
    const isLog = this.kind.value === 'log'
    const isLong = data.length - found.bodyOffset > JSON_BYTES_MAX
    this.names.disabled = this.versions.disabled = isLog
    this.json.disabled = isLog || isLong
    if (this.json.disabled) this.json.value = isLog ? 'A log is shown as fields.' : 'Too long to edit here.'
    else if (found.json !== null) this.json.value = found.json
    this.draw()
  }

  async edited () {
    try {
      const body = await encode(this.json.value, this.names.value, this.version)
      const before = this.kind.value === 'frame' ? this.data.slice(0, this.decoded.bodyOffset) : new Uint8Array()
      const data = new Uint8Array(before.length + body.length)
      data.set(before)
      data.set(body, before.length)
      if (this.decoded.spans[0]?.path === 'size') new DataView(data.buffer).setInt32(0, data.length - 4)
      this.put(data)
    } catch (error) {
      return this.say(`${error.path ? `${error.path}: ` : ''}${error.message}`)
    }
    this.decoded = await decode(this.data, this.kind.value, this.names.value, this.version)
    this.draw()
  }

  draw () {
    const { spans, error, batchError } = this.decoded
    const wrong = error ?? batchError
    this.bytes.show(this.data, spans, wrong?.offset)
    this.tree.show(spans)
    this.lit.textContent = 'Point at a byte or a field.'
    const what = this.kind.value === 'log' ? 'a log' : `${this.names.value} version ${this.version}`
    if (!wrong) return this.say(`${this.data.length} bytes: ${what}.`, false)
    const place = wrong.offset === undefined ? '' : ` at byte ${wrong.offset}`
    this.say(`${wrong.errorClass}${place}${wrong.path ? `, ${wrong.path}` : ''}: ${wrong.detail}`)
  }

  say (text, wrong = true) {
    this.note.textContent = text
    this.note.classList.toggle('wrong', wrong)
  }

  light (span) {
    this.tree.light(span)
    if (span) this.tell(span.start, span.end, `${span.path} ${span.wire}`)
  }

  lightBytes (start, end, text) {
    this.bytes.light(start, end)
    this.tell(start, end, text)
  }

  tell (start, end, text) {
    this.lit.textContent = `${end - start === 1 ? `byte ${start}` : `bytes ${start} to ${end - 1}`}: ${text}`
  }
}
