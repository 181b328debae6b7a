// Values of the harness protocol to and from what a JavaScript client takes and makes.

import { Raw } from './exact.mjs'
import { fieldsOf } from './specs.mjs'

export class Skipped extends Error {}
export class Refused extends Error {
  constructor (errorClass, detail) {
    super(detail)
    this.errorClass = errorClass
  }
}

// --- from JSON to what the client takes

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
  if (type !== 'bytes' && type !== 'records') return value
  const bytes = Buffer.from(value, 'base64') // Which leaves out what is no base64.
  if (bytes.toString('base64') !== value) throw wrong()
  return bytes
}

// The client's names for the fields of messages, where they are not those of the schemas.
//
// `fields` has them by message and the field's path without indices, `common` by the field's own
// name. A name with dots is a path into the client's object; of names with | between them, the
// client takes or has any one. `oneField` are the arrays of structs of which the client takes one
// field, as an array of that; `wrapped` the arrays of scalars that it takes as structs of one.
export class Names {
  constructor ({ fields, common = {}, oneField = {}, wrapped = {} }) {
    Object.assign(this, { fields, common, oneField, wrapped })
  }

  of (message, path, name) {
    return this.fields[message.name]?.[path] ?? this.common[name] ?? name
  }
}

const withoutIndices = path => path.replace(/\[\d+\]/g, '')

// One encode request: `unread` are the paths of fields that the client has not asked for yet.
export class Arguments {
  constructor (message, version, names) {
    this.message = message
    this.version = version
    this.names = names
    this.unread = new Set()
  }

  renamed (path, name) {
    return this.names.of(this.message, withoutIndices(path), name)
  }

  value (field, value, path) {
    if (!field.array || value === null) return this.element(field, value, path)
    if (!Array.isArray(value)) throw new Refused('wrong_type', `${path}: not an array`)
    const place = `${this.message.name}.${withoutIndices(path)}`
    const single = this.names.oneField[place]
    const wrapped = this.names.wrapped[place]
    return value.map((item, at) => {
      const element = this.element(field, item, `${path}[${at}]`)
      if (wrapped) return { [wrapped]: element }
      return single ? element[single] : element
    })
  }

  element (field, value, path) {
    if (!field.fields || value === null) return scalarIn(field.type, value, path)
    return this.struct(this.members(field.fields, value, path), path)
  }

  // A struct that knows which of its fields the client has asked for, and refuses other names:
  // what the client never asks for, it cannot have written.
  struct (members, path) {
    return new Proxy(members, {
      get: (_, name) => {
        if (typeof name === 'symbol' || !members.has(name)) {
          const shown = typeof name === 'symbol' ? 'a plain value' : name
          throw new Skipped(`the client asks ${path || 'a message'} for ${shown}, which is no field`)
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
      throw new Skipped('the client takes no unknown tagged fields')
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
      for (const name of this.renamed(inside, field.name).split('|')) members.set(name, member)
    }
    return members
  }

  // The client has written the message: that of it which it did not ask for is not in the bytes.
  check () {
    if (this.unread.size) throw new Skipped(`the client does not take ${[...this.unread][0]}`)
  }
}

// --- from what the client makes to JSON

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

export class Result {
  constructor (message, version, names) {
    this.message = message
    this.version = version
    this.names = names
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
        throw new Skipped('the client reads the records, and does not keep their bytes')
      }
      const places = this.names.of(this.message, inside, field.name).split('|')
      const members = places.map(place => place.split('.').reduce((held, key) => held?.[key], value))
      const member = members.find(found => found !== undefined)
      // A field that the client leaves out is left out here too, and the difference is seen.
      if (member !== undefined) out[field.name] = this.value(field, member, inside)
    }
    return out
  }
}

