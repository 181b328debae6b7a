// Messages as JSON, in the shape of Kafka's own converters: bytes and records as base64, uuids as
// 22 characters, a tagged field that holds its default left out, any other field of the version
// there. Unknown tagged fields are "_unknownTaggedFields". A float64 that JSON cannot say is the
// string of its 16 hex digits.

import { fromBase64, fromHex, isUuid, toBase64, toHex } from './bytes.js'
import { pathOf } from './decoder.js'
import { kindOf, RANGES } from './encoder.js'
import { CodecError, type ErrorClass } from './errors.js'
import type { Json, JsonObject } from './json.js'
import {
  isDefault, structOfDefaults, type Default, type Element, type Fields, type Layout,
  type StructTable, type UnknownTaggedField, type Wire
} from './layout.js'

const UNKNOWN_TAGS = '_unknownTaggedFields'

/** Return a struct that can be encoded as JSON. */
export function structToJson (
  structs: readonly StructTable[], layouts: readonly Layout[], number: number, value: Fields
): JsonObject {
  const layout = layouts[number]!
  const found = new Map<string, Json>()
  for (const [name, wire, , element] of layout.fields) {
    found.set(name, toJson(structs, layouts, wire, element, value[name]))
  }
  for (const [, name, wire, , element, byDefault] of layout.tagged) {
    if (!isDefault(structs, value[name], byDefault)) {
      found.set(name, toJson(structs, layouts, wire, element, value[name]))
    }
  }
  const out = Object.create(null) as JsonObject
  for (const [name] of structs[layout.struct]!.fields) {
    const member = found.get(name)
    if (member !== undefined) out[name] = member
  }
  const unknown = value.unknownTaggedFields as UnknownTaggedField[] | undefined
  if (unknown !== undefined && unknown.length > 0) {
    out[UNKNOWN_TAGS] = unknown.map(({ tag, data }) => ({ tag: BigInt(tag), hex: toHex(data) }))
  }
  return out
}

function toJson (
  structs: readonly StructTable[], layouts: readonly Layout[], wire: Wire, element: Element,
  // The encoder has looked at its type.
  value: any
): Json {
  if (value === null) return null
  switch (wire) {
    case 'bool': case 'string': case 'compact_string': case 'uuid': return value
    case 'int64': return value
    case 'float64': return floatToJson(value)
    case 'bytes': case 'compact_bytes': case 'records': case 'compact_records':
      return toBase64(value)
    case 'struct': return structToJson(structs, layouts, element as number, value)
    case 'array': case 'compact_array':
      return value.map((item: unknown) => typeof element === 'number'
        ? structToJson(structs, layouts, element, item as Fields)
        : toJson(structs, layouts, element!, null, item))
    default: return BigInt(value)
  }
}

function floatToJson (value: number): Json {
  if (Number.isFinite(value)) return value
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setFloat64(0, value)
  return `0x${toHex(bytes)}`
}

/** Reads JSON values. */
export class JsonReader {
  private readonly structs: readonly StructTable[]
  private readonly layouts: readonly Layout[]
  private readonly path: string[] = []

  constructor (structs: readonly StructTable[], layouts: readonly Layout[]) {
    this.structs = structs
    this.layouts = layouts
  }

  private refuse (errorClass: ErrorClass, detail: string, ...more: string[]): never {
    throw new CodecError(errorClass, detail, pathOf([...this.path, ...more]))
  }

  /** Read a struct by the number of its layout. */
  struct (number: number, value: Json): Fields {
    const layout = this.layouts[number]!
    if (value === null || typeof value !== 'object' || Array.isArray(value)) {
      this.refuse('wrong_type', `an object wanted, not ${kindOf(value)}`)
    }
    const left = new Map(Object.entries(value))
    const out = structOfDefaults(this.structs, layout.struct)
    for (const [name, wire, nullable, element] of layout.fields) {
      const item = left.get(name)
      if (item === undefined) this.refuse('missing_field', 'the value lacks this field', name)
      out[name] = this.at(name, wire, nullable, element, item)
      left.delete(name)
    }
    for (const [, name, wire, nullable, element] of layout.tagged) {
      const item = left.get(name)
      if (item !== undefined) out[name] = this.at(name, wire, nullable, element, item)
      left.delete(name)
    }
    for (const [name, ignorable, byDefault] of layout.absent) {
      const item = left.get(name)
      if (item !== undefined && !ignorable && !isDefaultJson(item, byDefault)) {
        this.refuse('field_not_in_version', 'this version has no such field', name)
      }
      left.delete(name)
    }
    const unknown = left.get(UNKNOWN_TAGS)
    if (unknown !== undefined) this.unknown(layout, unknown, out)
    left.delete(UNKNOWN_TAGS)
    if (left.size > 0) {
      const [first] = [...left.keys()].sort()
      this.refuse('field_not_in_version', 'no version has such a field', first!)
    }
    return out
  }

  private unknown (layout: Layout, value: Json, out: Fields): void {
    const wanted = 'a list of {"tag":…,"hex":…} wanted'
    if (!Array.isArray(value)) this.refuse('wrong_type', wanted, UNKNOWN_TAGS)
    const tags = value.map(entry => {
      const { tag, hex } = Object(entry) as JsonObject
      const data = typeof hex === 'string' ? fromHex(hex) : undefined
      if (typeof tag !== 'bigint' || data === undefined) {
        this.refuse('wrong_type', wanted, UNKNOWN_TAGS)
      }
      return { tag: Number(tag), data }
    })
    if (tags.length === 0) return
    if (!layout.flexible) {
      this.refuse('field_not_in_version', 'this version has no tagged fields', UNKNOWN_TAGS)
    }
    out.unknownTaggedFields = tags
  }

  private at (name: string, wire: Wire, nullable: boolean, element: Element, value: Json): unknown {
    this.path.push(name)
    const result = this.value(wire, nullable, element, value)
    this.path.pop()
    return result
  }

  private value (wire: Wire, nullable: boolean, element: Element, value: Json): unknown {
    if (value === null) {
      if (!nullable) this.refuse('null_for_non_nullable', 'null, but not nullable')
      return null
    }
    if (wire === 'struct') return this.struct(element as number, value)
    if (wire !== 'array' && wire !== 'compact_array') return this.scalar(wire, value)
    if (!Array.isArray(value)) this.refuse('wrong_type', `an array wanted, not ${kindOf(value)}`)
    return value.map((item, index) => typeof element === 'number'
      ? this.at(`[${index}]`, 'struct', false, element, item)
      : this.at(`[${index}]`, element!, false, null, item))
  }

  private scalar (wire: Wire, value: Json): unknown {
    const range = RANGES[wire]
    if (range !== undefined && typeof value === 'bigint') {
      if (value < range[0] || value > range[1]) {
        const detail = `${wire} holds ${range[0]} to ${range[1]}, not ${value}`
        this.refuse('integer_out_of_range', detail)
      }
      return wire === 'int64' ? value : Number(value)
    }
    if (wire === 'bool' && typeof value === 'boolean') return value
    if (wire === 'float64') return this.float(value)
    if (range === undefined && wire !== 'bool' && typeof value === 'string') {
      if (wire === 'string' || wire === 'compact_string') return value
      if (wire === 'uuid') {
        if (isUuid(value)) return value
        this.refuse('wrong_type', 'a uuid of 22 characters of URL-safe base64 wanted')
      }
      return fromBase64(value) ?? this.refuse('wrong_type', 'not base64')
    }
    return this.refuse('wrong_type', `${wire} wanted, not ${kindOf(value)}`)
  }

  private float (value: Json): number {
    if (typeof value === 'number') return value
    if (typeof value === 'bigint' && Number.isFinite(Number(value))) return Number(value)
    if (typeof value === 'string' && /^0x[0-9a-fA-F]{16}$/.test(value)) {
      return new DataView(fromHex(value.slice(2))!.buffer as ArrayBuffer).getFloat64(0)
    }
    return this.refuse('wrong_type', `float64 wanted, not ${kindOf(value)}`)
  }
}

/** Whether a JSON value is the default of a field; a struct of defaults has no such form. */
function isDefaultJson (value: Json, byDefault: Default): boolean {
  if (byDefault === null || typeof byDefault !== 'object') {
    // Of JSON, every integer is a bigint.
    return typeof byDefault === 'number' && typeof value === 'bigint'
      ? value === BigInt(byDefault)
      : value === byDefault
  }
  if (byDefault instanceof Uint8Array) return value === ''
  return Array.isArray(byDefault) && Array.isArray(value) && value.length === 0
}
