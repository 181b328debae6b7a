// @platformatic/kafka behind the harness protocol: node main.mjs PACKAGE SPECS
//
// The client has a module for each API and version, which writes the request from arguments and
// reads the response into an object. It has no other direction, so an adapter cannot ask it for
// one: encoding a response and decoding a request are answered "skipped". Arguments and objects
// have the schemas' names where nothing else is said below; what a field is (an int64 is a BigInt
// in JavaScript, a uuid a string) the schemas in SPECS say.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { Raw, parse, stringify } from './exact.mjs'
import { NAMES, ONE_FIELD } from './names.mjs'
import { fieldsOf, readSpecs } from './specs.mjs'

const [root, specs] = process.argv.slice(2)
const dist = join(root, 'dist')
const load = file => import(pathToFileURL(join(dist, file)))

class Skipped extends Error {}
class Refused extends Error {
  constructor (errorClass, detail) {
    super(detail)
    this.errorClass = errorClass
  }
}

async function modules (messages) {
  const found = new Map()
  for (const folder of readdirSync(join(dist, 'apis'), { withFileTypes: true })) {
    if (!folder.isDirectory()) continue
    for (const file of readdirSync(join(dist, 'apis', folder.name))) {
      if (!/-v\d+\.js$/.test(file)) continue
      const module = await load(join('apis', folder.name, file))
      for (const type of ['request', 'response']) {
        const message = messages.get(`${module.api.key} ${type}`)
        if (!message) continue
        if (!found.has(message.name)) found.set(message.name, { message, versions: new Map() })
        found.get(message.name).versions.set(module.api.version, module)
      }
    }
  }
  return found
}

// --- from JSON to what createRequest takes

const uuidText = text => {
  const hex = Buffer.from(text, 'base64url').toString('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

function scalarIn (type, value, path) {
  const wrong = () => new Refused('wrong_type', `${path}: not a ${type}`)
  if (value === null) return null
  if (type === 'int64') {
    if (typeof value === 'bigint' || Number.isInteger(value)) return BigInt(value)
    throw wrong()
  }
  if (/^u?int/.test(type)) {
    if (Number.isInteger(value)) return value
    throw wrong()
  }
  if (type === 'float64') {
    if (typeof value === 'number') return value
    return Buffer.from(value.replace('0x', ''), 'hex').readDoubleBE()
  }
  if (typeof value !== (type === 'bool' ? 'boolean' : 'string')) throw wrong()
  if (type === 'uuid') return uuidText(value)
  return type === 'bytes' || type === 'records' ? Buffer.from(value, 'base64') : value
}

// One encode request: `unread` are the paths of fields that createRequest has not asked for yet.
class Arguments {
  constructor (message, version) {
    this.message = message
    this.version = version
    this.unread = new Set()
  }

  renamed (path, name) {
    return NAMES[this.message.name]?.[path.replace(/\[\d+\]/g, '')] ?? name
  }

  value (field, value, path) {
    if (!field.array || value === null) return this.element(field, value, path)
    if (!Array.isArray(value)) throw new Refused('wrong_type', `${path}: not an array`)
    const single = ONE_FIELD[`${this.message.name}.${path}`]
    return value.map((item, at) => {
      const element = this.element(field, item, `${path}[${at}]`)
      return single ? element[single] : element
    })
  }

  element (field, value, path) {
    if (!field.fields || value === null) return scalarIn(field.type, value, path)
    return this.struct(this.members(field.fields, value, path), path)
  }

  // A struct that knows which of its fields createRequest has asked for, and refuses other names:
  // what the client never asks for, it cannot have written.
  struct (members, path) {
    return new Proxy(members, {
      get: (_, name) => {
        if (typeof name === 'symbol' || !members.has(name)) {
          const shown = typeof name === 'symbol' ? 'a plain value' : name
          throw new Skipped(`createRequest asks ${path || 'a message'} for ${shown}, which is no field`)
        }
        return this.read(members.get(name))
      },
      set: () => true
    })
  }

  read (member) {
    this.unread.delete(member.path)
    return member.value
  }

  members (fields, value, path) {
    if (value === null || typeof value !== 'object' || Array.isArray(value)) {
      throw new Refused('wrong_type', `${path}: not a struct`)
    }
    if (value._unknownTaggedFields?.length) {
      throw new Skipped('createRequest takes no unknown tagged fields')
    }
    const inVersion = fieldsOf(fields, this.version)
    const names = new Set(inVersion.map(field => field.name))
    for (const name of Object.keys(value)) {
      if (!names.has(name) && name !== '_unknownTaggedFields') {
        throw new Refused('field_not_in_version', `${path}: there is no ${name}`)
      }
    }
    const members = new Map()
    for (const field of inVersion) {
      const inside = path ? `${path}.${field.name}` : field.name
      if (value[field.name] === undefined) {
        if (field.tagged) continue
        throw new Refused('missing_field', `${inside} is missing`)
      }
      if (!field.isDefault(value[field.name])) this.unread.add(inside)
      const member = { path: inside, value: this.value(field, value[field.name], inside) }
      members.set(this.renamed(inside, field.name), member)
    }
    return members
  }

  // The arguments of createRequest, by the names of its parameters.
  list (createRequest, value) {
    const members = this.members(this.message.fields, value, '')
    const whole = this.renamed('', undefined)
    const known = this.message.fields.map(field => [this.renamed(field.name, field.name), field])
    const scalars = new Set(known.filter(([, field]) => !field.array).map(([name]) => name))
    return parameters(createRequest).map(name => {
      if (name === whole) return this.struct(members, '')
      if (members.has(name)) return this.read(members.get(name))
      // A parameter may be a field of other versions, or be left over (an underscore says so).
      if (scalars.has(name) || name.startsWith('_')) return undefined
      throw new Skipped(`createRequest takes ${name}, which is no field of v${this.version}`)
    })
  }
}

function parameters (createRequest) {
  const [, list] = /^function \w*\(([^)]*)\)/.exec(createRequest.toString())
  return list.split(',').map(word => word.split('=')[0].trim()).filter(Boolean)
}

function encode ({ message, versions }, version, value) {
  if (message.type === 'response') throw new Skipped('the client does not write responses')
  const { createRequest } = versions.get(version)
  const held = new Arguments(message, version)
  const hex = createRequest(...held.list(createRequest, value)).buffer.toString('hex')
  if (held.unread.size) throw new Skipped(`createRequest does not take ${[...held.unread][0]}`)
  return { hex }
}

// --- from what parseResponse makes to JSON

function scalarOut (type, value) {
  if (value === null || value === undefined) return null
  if (type === 'int64') return new Raw(String(value))
  if (type === 'uuid') return Buffer.from(value.replaceAll('-', ''), 'hex').toString('base64url')
  if (type === 'bytes') return Buffer.from(value).toString('base64')
  if (type !== 'float64') return value
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(value)
  if (!Number.isFinite(value)) return `0x${bytes.toString('hex')}`
  return new Raw(/[.e]/.test(String(value)) ? String(value) : `${Object.is(value, -0) ? '-0' : value}.0`)
}

class Result {
  constructor (message, version) {
    this.names = NAMES[message.name] ?? {}
    this.version = version
  }

  value (field, value, path) {
    if (!field.array || value === null) return this.element(field, value, path)
    return Array.from(value, item => this.element(field, item, path))
  }

  element (field, value, path) {
    if (!field.fields || value === null) return scalarOut(field.type, value)
    return this.struct(field.fields, value, path)
  }

  struct (fields, value, path) {
    const out = {}
    for (const field of fieldsOf(fields, this.version)) {
      const inside = path ? `${path}.${field.name}` : field.name
      if (field.type === 'records') {
        throw new Skipped('parseResponse reads the records, and does not keep their bytes')
      }
      const keys = (this.names[inside] ?? field.name).split('.')
      const member = keys.reduce((held, key) => held?.[key], value)
      // A field that the client leaves out is left out here too, and the difference is seen.
      if (member !== undefined) out[field.name] = this.value(field, member, inside)
    }
    return out
  }
}

function decode ({ message, versions }, version, bytes, { Reader }) {
  if (message.type === 'request') throw new Skipped('the client does not read requests')
  const { api, parseResponse } = versions.get(version)
  let value
  try {
    value = parseResponse(0, api.key, version, Reader.from(bytes))
  } catch (error) {
    // Records in zstd need a Node.js of 22.15 or newer.
    if (/not supported in the current Node/.test(error.message)) throw new Skipped(error.message)
    // A response that tells of an error is thrown, with all that it holds.
    if (error.code !== 'PLT_KFK_RESPONSE') throw error
    value = error.response
  }
  return { value: new Result(message, version).struct(message.fields, value, '') }
}

// --- the harness protocol

function answer (request, found, protocol) {
  try {
    const { cmd, message, version, spec } = request
    if (spec !== undefined) throw new Skipped('only the messages of Apache Kafka are served')
    const known = found.get(message)
    if (!known) throw new Refused('unknown_message', `the client has no ${message}`)
    if (!known.versions.has(version)) {
      const versions = [...known.versions.keys()]
      const detail = `the client has ${message} in versions ${versions.join(', ')}`
      const gap = Math.min(...versions) < version && version < Math.max(...versions)
      throw gap ? new Skipped(detail) : new Refused('unsupported_version', detail)
    }
    if (cmd === 'encode') return encode(known, version, request.value)
    return decode(known, version, Buffer.from(request.hex, 'hex'), protocol)
  } catch (error) {
    if (error instanceof Skipped) return { skipped: { reason: error.message } }
    const errorClass = error instanceof Refused ? error.errorClass : 'refused'
    return { error: { class: errorClass, detail: `${error.name}: ${error.message}` } }
  }
}

const found = await modules(readSpecs(specs))
const protocol = await load('protocol/reader.js')
const range = ({ versions }) => `${Math.min(...versions.keys())}-${Math.max(...versions.keys())}`
const hello = {
  protocol: 1,
  name: 'platformatic-kafka',
  language: 'javascript',
  version: JSON.parse(readFileSync(join(root, 'package.json'))).version,
  spec: 'kafka',
  messages: Object.fromEntries([...found].map(([name, known]) => [name, range(known)])),
  notes: 'Requests are only written and responses only read; tagged fields are not kept.'
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = parse(line)
  if (request.cmd === 'stop') break
  const reply = request.cmd === 'hello' ? hello : { id: request.id, ...answer(request, found, protocol) }
  process.stdout.write(`${stringify(reply)}\n`)
}
process.stdin.destroy()
