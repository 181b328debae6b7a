// The page of bytes: hex and JSON that follow each other, and a tree beside the bytes.

import { CATALOGUE, decode, detect, encode, example, fromHex, toHex } from './decode.js'
import { h } from './dom.js'
import { hexView } from './hex.js'
import { treeView } from './tree.js'

const HEX_SHOWN_MAX = 65_536 // Bytes; a text area with more is slow.

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
      h('option', { value: 'message' }, 'a message alone'))
    this.names = h('select', { id: 'name', onchange: () => this.choose(this.names.value) },
      names.map((name) => h('option', {}, name)))
    this.versions = h('select', { id: 'version', onchange: () => this.read() })
    this.hex = h('textarea', { id: 'hex', spellcheck: 'false', oninput: () => this.typed() })
    this.json = h('textarea', { id: 'json', spellcheck: 'false', oninput: () => this.edited() })
    this.note = h('p', { id: 'note', role: 'status' })
    this.lit = h('p', { id: 'lit', class: 'mono' }, 'Point at a byte or a field.')
    this.bytes = hexView((span) => this.light(span))
    this.tree = treeView((start, end, text) => this.lightBytes(start, end, text))
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
    h('p', {}, 'Paste hex, or drop a file with one frame. A request says what it is; of a response, choose the message and version. Nothing leaves this page.'),
    h('div', { class: 'form' },
      h('label', { for: 'kind' }, 'The bytes are', h('br'), this.kind),
      h('label', { for: 'name' }, 'Message', h('br'), this.names),
      h('label', { for: 'version' }, 'Version', h('br'), this.versions),
      h('label', { for: 'file' }, 'File', h('br'), this.file)),
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
    this.data = data
    const shown = toHex(data.subarray(0, HEX_SHOWN_MAX)).replace(/(.{8})(?=.)/g, '$1 ')
    this.hex.value = shown + (data.length > HEX_SHOWN_MAX ? ' …' : '')
  }

  async take (file) {
    if (!file) return
    this.data = new Uint8Array(await file.arrayBuffer())
    const text = new TextDecoder('latin1').decode(this.data.subarray(0, 64))
    if (/^[0-9a-fx\\\s,:]+$/i.test(text)) this.data = fromHex(new TextDecoder().decode(this.data))
    this.put(this.data)
    await this.found()
  }

  async typed () {
    try {
      this.data = fromHex(this.hex.value)
    } catch (error) {
      return this.say(error.message)
    }
    await this.found()
  }

  async found () {
    const is = detect(this.data)
    if (is) {
      this.kind.value = is.kind
      this.pick(is.name, is.version)
    } else if (!this.versions.value) this.pick('ApiVersionsRequest', 0)
    await this.read()
  }

  async read () {
    this.decoded = await decode(this.data, this.kind.value, this.names.value, this.version)
    if (this.decoded.json !== null) this.json.value = this.decoded.json
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
    const { spans, error } = this.decoded
    this.bytes.show(this.data, spans, error?.offset)
    this.tree.show(spans)
    this.lit.textContent = 'Point at a byte or a field.'
    if (error) {
      this.say(`${error.errorClass}${error.offset === undefined ? '' : ` at byte ${error.offset}`}${error.path ? `, ${error.path}` : ''}: ${error.detail}`)
    } else this.say(`${this.data.length} bytes: ${this.names.value} version ${this.version}.`, false)
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
