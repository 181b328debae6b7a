// Encodes and decodes any message by its plan: what your codec replaces.
//
// plans.json has a plan for each message and version: the fields in wire order, the wire type of
// each, whether it may be null, and the tagged fields with their defaults.

import { readFileSync } from 'node:fs'
import { parse } from './json.mjs'

const LONGEST_STRING = 32767
const UNKNOWN = '_unknownTaggedFields'
// Bytes and the least and the greatest value of each integer.
const INTEGERS = {
  int8: [1, -(2n ** 7n), 2n ** 7n - 1n],
  int16: [2, -(2n ** 15n), 2n ** 15n - 1n],
  uint16: [2, 0n, 2n ** 16n - 1n],
  int32: [4, -(2n ** 31n), 2n ** 31n - 1n],
  uint32: [4, 0n, 2n ** 32n - 1n],
  int64: [8, -(2n ** 63n), 2n ** 63n - 1n]
}
const PLANS = new Map(parse(readFileSync(new URL('plans.json', import.meta.url), 'utf8'))
  .map(plan => [`${plan.message} ${plan.version}`, plan]))

export function ranges () {
  const versions = {}
  for (const { message, version } of PLANS.values()) {
    const [first, last] = versions[message] ?? [version, version]
    versions[message] = [version < first ? version : first, version > last ? version : last]
  }
  return Object.fromEntries(Object.entries(versions).map(([name, held]) => [name, held.join('-')]))
}

export function encode (message, version, value) {
  const parts = []
  putStruct(parts, planOf(message, version), value)
  return Buffer.concat(parts)
}

export function decode (message, version, data) {
  const reader = new Reader(data)
  const value = reader.struct(planOf(message, version))
  check(reader.at === data.length, `${data.length - reader.at} bytes are left`)
  return value
}

function planOf (message, version) {
  const plan = PLANS.get(`${message} ${version}`)
  check(plan, `there is no ${message} ${version}`)
  return plan
}

function check (holds, otherwise) {
  if (!holds) throw new Error(otherwise)
}

function uvarint (value) {
  const out = []
  for (; value > 0x7f; value >>>= 7) out.push(value & 0x7f | 0x80)
  return Buffer.from([...out, value])
}

function integer (wire, value) {
  const [width, low, high] = INTEGERS[wire]
  check(typeof value === 'bigint' && value >= low && value <= high, `no ${wire}: ${value}`)
  const out = Buffer.alloc(8)
  out.writeBigInt64BE(BigInt.asIntN(64, value))
  return out.subarray(8 - width)
}

function length (wire, count) {
  if (wire.startsWith('compact_')) return uvarint(count + 1)
  return integer(wire === 'string' ? 'int16' : 'int32', BigInt(count))
}

function putStruct (parts, plan, value) {
  check(value !== null && typeof value === 'object' && !Array.isArray(value), 'a struct wanted')
  const known = new Set([...plan.fields, ...plan.tagged].map(field => field.name))
  if (plan.taggedSection) known.add(UNKNOWN)
  for (const name of Object.keys(value)) check(known.has(name), `no such field: ${name}`)
  for (const field of plan.fields) {
    check(Object.hasOwn(value, field.name), `${field.name} is missing`)
    put(parts, field, value[field.name])
  }
  if (!plan.taggedSection) return
  const tags = []
  for (const field of plan.tagged) {
    if (!Object.hasOwn(value, field.name)) continue
    if (same(value[field.name], field.default)) continue
    const body = []
    put(body, field, value[field.name])
    tags.push([field.tag, Buffer.concat(body)])
  }
  const taken = new Set([...plan.laterTags, ...plan.tagged.map(field => field.tag)])
  let last = -1n
  for (const { tag, hex } of value[UNKNOWN] ?? []) {
    check(tag > last && tag <= 0x7fffffffn && !taken.has(tag), `tag ${tag} after ${last}, or taken`)
    tags.push([tag, Buffer.from(hex, 'hex')])
    last = tag
  }
  tags.sort(([one], [other]) => Number(one - other))
  parts.push(uvarint(tags.length))
  for (const [tag, body] of tags) parts.push(uvarint(Number(tag)), uvarint(body.length), body)
}

// Whether two JSON values are equal; the order of keys does not count.
function same (one, other) {
  if (one === null || other === null || typeof one !== 'object' || typeof other !== 'object') {
    return Object.is(one, other)
  }
  const names = Object.keys(one)
  return Array.isArray(one) === Array.isArray(other) &&
    names.length === Object.keys(other).length &&
    names.every(name => Object.hasOwn(other, name) && same(one[name], other[name]))
}

function put (parts, field, value) {
  const { name, wire, nullable, element } = field
  if (wire in INTEGERS) return parts.push(integer(wire, value))
  if (wire === 'bool') {
    check(typeof value === 'boolean', `${name} is a bool`)
    return parts.push(Buffer.from([value ? 1 : 0]))
  }
  if (wire === 'float64') return parts.push(putFloat(name, value))
  if (wire === 'uuid') return parts.push(base64(name, value, 'base64url', 16))
  if (value === null) {
    check(nullable, `${name} is never null`)
    if (wire === 'struct') return parts.push(Buffer.from([field.tag === undefined ? 0xff : 0]))
    return parts.push(length(wire, -1))
  }
  if (wire === 'struct') {
    if (nullable) parts.push(Buffer.from([1]))
    return putStruct(parts, element, value)
  }
  if (wire.endsWith('array')) {
    check(Array.isArray(value), `${name} is an array`)
    parts.push(length(wire, value.length))
    for (const item of value) {
      if (typeof element === 'string') put(parts, { name, wire: element, nullable: false }, item)
      else putStruct(parts, element, item)
    }
    return
  }
  check(typeof value === 'string', `${name} is a string in JSON`)
  const text = wire.endsWith('string')
  const data = text ? Buffer.from(value) : base64(name, value, 'base64')
  check(!text || data.length <= LONGEST_STRING, `${name} has ${data.length} bytes`)
  parts.push(length(wire, data.length), data)
}

function putFloat (name, value) {
  if (typeof value === 'string') {
    check(/^0x[0-9a-f]{16}$/i.test(value), `${name} is a float64`)
    return Buffer.from(value.slice(2), 'hex')
  }
  check(typeof value === 'number', `${name} is a float64`)
  const out = Buffer.alloc(8)
  out.writeDoubleBE(value)
  return out
}

function base64 (name, value, encoding, size) {
  check(typeof value === 'string', `${name} is ${encoding}`)
  const data = Buffer.from(value, encoding)
  check(data.toString(encoding) === value, `${name} is no ${encoding}`)
  check(size === undefined || data.length === size, `${name} has ${data.length} bytes`)
  return data
}

class Reader {
  constructor (data) {
    this.data = data
    this.at = 0
  }

  take (count) {
    check(count <= this.data.length - this.at, `${count} bytes wanted at ${this.at}`)
    this.at += count
    return this.data.subarray(this.at - count, this.at)
  }

  integer (wire) {
    const [width, low] = INTEGERS[wire]
    let value = 0n
    for (const byte of this.take(width)) value = value << 8n | BigInt(byte)
    return low < 0n ? BigInt.asIntN(8 * width, value) : value
  }

  uvarint () {
    let value = 0
    for (let at = 0; at < 5; at++) {
      const [byte] = this.take(1)
      value += (byte & 0x7f) * 2 ** (7 * at)
      if (byte < 0x80) {
        check(byte > 0 || at === 0, 'a varint in too many bytes')
        check(value <= 0x7fffffff, 'a varint of more than 31 bits')
        return value
      }
    }
    throw new Error('a varint has at most 5 bytes')
  }

  length ({ name, wire, nullable }) {
    const count = wire.startsWith('compact_')
      ? this.uvarint() - 1
      : Number(this.integer(wire === 'string' ? 'int16' : 'int32'))
    check(count >= -1, `length ${count}`)
    check(count >= 0 || nullable, `${name} is never null`)
    check(count <= this.data.length - this.at, `${name}: length ${count}`)
    return count < 0 ? null : count
  }

  struct (plan) {
    const value = {}
    for (const field of plan.fields) value[field.name] = this.value(field)
    if (!plan.taggedSection) return value
    const unknown = []
    const count = this.uvarint()
    let last = -1n
    for (let at = 0; at < count; at++) {
      const tag = BigInt(this.uvarint())
      check(tag > last && !plan.laterTags.includes(tag), `tag ${tag} after ${last}`)
      last = tag
      const size = this.uvarint()
      const field = plan.tagged.find(field => field.tag === tag)
      if (!field) {
        unknown.push({ tag, hex: this.take(size).toString('hex') })
        continue
      }
      const start = this.at
      const held = this.value(field)
      check(this.at - start === size, `tag ${tag} has ${this.at - start} bytes, not ${size}`)
      if (!same(held, field.default)) value[field.name] = held
    }
    if (unknown.length) value[UNKNOWN] = unknown
    return value
  }

  value (field) {
    const { name, wire, nullable, element } = field
    if (wire in INTEGERS) return this.integer(wire)
    if (wire === 'bool') {
      const [byte] = this.take(1)
      check(byte <= 1, `a bool is 0 or 1, not ${byte}`)
      return byte === 1
    }
    if (wire === 'float64') {
      const data = this.take(8)
      const value = data.readDoubleBE()
      return Number.isFinite(value) ? value : `0x${data.toString('hex')}`
    }
    if (wire === 'uuid') return this.take(16).toString('base64url')
    if (wire === 'struct') {
      if (nullable) {
        const [marker] = this.take(1)
        const none = field.tag === undefined ? 0xff : 0
        check(marker === 1 || marker === none, `marker ${marker}`)
        if (marker === none) return null
      }
      return this.struct(element)
    }
    const count = this.length(field)
    if (count === null) return null
    if (wire.endsWith('array')) {
      return Array.from({ length: count }, () => typeof element === 'string'
        ? this.value({ name, wire: element, nullable: false })
        : this.struct(element))
    }
    const data = this.take(count)
    if (!wire.endsWith('string')) return data.toString('base64')
    check(count <= LONGEST_STRING, `${name} has ${count} bytes`)
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data)
  }
}
