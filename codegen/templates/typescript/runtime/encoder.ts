// The interpreter that writes: slow and obvious, it names errors.

import { isUuid, textSize } from './bytes.js'
import { pathOf, SIZES } from './decoder.js'
import { CodecError, type ErrorClass } from './errors.js'
import {
  INT_MAX, isArray, isDefault, own, STRING_BYTES_MAX, type Element, type Fields, type Layout,
  type StructTable, type Wire
} from './layout.js'
import { acquire, Writer, type TaggedField } from './writer.js'

/** The least and the greatest number of each integer type. */
export const RANGES: Partial<Record<Wire, readonly [bigint, bigint]>> = {
  int8: [-128n, 127n],
  int16: [-32768n, 32767n],
  uint16: [0n, 65535n],
  int32: [-2147483648n, 2147483647n],
  uint32: [0n, 4294967295n],
  int64: [-9223372036854775808n, 9223372036854775807n]
}

/** Return what a value is, for an error. */
export function kindOf (value: unknown): string {
  if (value === null) return 'null'
  if (isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

export class Encoder {
  private readonly structs: readonly StructTable[]
  private readonly layouts: readonly Layout[]
  private readonly path: string[] = []

  constructor (structs: readonly StructTable[], layouts: readonly Layout[]) {
    this.structs = structs
    this.layouts = layouts
  }

  private refuse (errorClass: ErrorClass, detail: string): never {
    throw new CodecError(errorClass, detail, pathOf(this.path))
  }

  private wrong (value: unknown, expected: string): never {
    return this.refuse('wrong_type', `${expected} wanted, not ${kindOf(value)}`)
  }

  private fixed (to: Writer, wire: Wire, size: number, value: unknown): void {
    if (value === null) this.refuse('null_for_non_nullable', `null, but ${wire} is never null`)
    if (wire === 'uuid') {
      if (typeof value !== 'string' || !isUuid(value)) {
        this.wrong(value, 'a uuid of 22 characters')
      }
      to.uuidAt(to.room(size), value)
      return
    }
    const at = to.room(size)
    if (wire === 'bool') {
      if (typeof value !== 'boolean') this.wrong(value, 'a boolean')
      to.view.setInt8(at, value ? 1 : 0)
    } else if (wire === 'float64') {
      if (typeof value !== 'number') this.wrong(value, 'a number')
      to.view.setFloat64(at, value)
    } else {
      this.integer(to.view, at, wire, value)
    }
  }

  private integer (view: DataView, at: number, wire: Wire, value: unknown): void {
    if (wire === 'int64') {
      if (typeof value !== 'bigint') this.wrong(value, 'a bigint')
    } else if (typeof value !== 'number' || !Number.isInteger(value)) {
      this.wrong(value, 'an integer')
    }
    const [low, high] = RANGES[wire]!
    if (value < low || value > high) {
      this.refuse('integer_out_of_range', `${wire} holds ${low} to ${high}, not ${value}`)
    }
    switch (wire) {
      case 'int64': return view.setBigInt64(at, value as bigint)
      case 'int32': case 'uint32': return view.setInt32(at, Number(value))
      case 'int16': case 'uint16': return view.setInt16(at, Number(value))
      default: return view.setInt8(at, Number(value))
    }
  }

  /** Write a length or count; -1 is null. */
  private length (to: Writer, length: number, compact: boolean, short = false): void {
    const limit = short ? STRING_BYTES_MAX : compact ? INT_MAX - 1 : INT_MAX
    if (length > limit) this.refuse('length_too_long', `at most ${limit}, not ${length}`)
    if (compact) {
      to.uvarint(length + 1)
    } else if (short) {
      const at = to.room(2)
      to.view.setInt16(at, length)
    } else {
      to.count(length)
    }
  }

  private variable (to: Writer, wire: Wire, nullable: boolean, value: unknown): void {
    const compact = wire.startsWith('compact_')
    const text = wire.endsWith('string')
    if (value === null) {
      if (!nullable) this.refuse('null_for_non_nullable', 'null, but not nullable')
      this.length(to, -1, compact, text)
    } else if (text) {
      if (typeof value !== 'string') this.wrong(value, 'a string')
      const size = textSize(value)
      if (size < 0) this.refuse('invalid_utf8', 'half of a surrogate pair')
      if (size > STRING_BYTES_MAX) {
        const detail = `a string is at most ${STRING_BYTES_MAX} bytes in UTF-8, not ${size}`
        this.refuse('length_too_long', detail)
      }
      if (compact) to.compactString(value)
      else to.string(value)
    } else {
      if (!(value instanceof Uint8Array)) this.wrong(value, 'a Uint8Array')
      this.length(to, value.length, compact)
      to.raw(value)
    }
  }

  private array (
    to: Writer, compact: boolean, nullable: boolean, element: Element, value: unknown
  ): void {
    if (value === null) {
      if (!nullable) this.refuse('null_for_non_nullable', 'null, but not nullable')
      this.length(to, -1, compact)
      return
    }
    if (!isArray(value)) this.wrong(value, 'an array')
    this.length(to, value.length, compact)
    for (let index = 0; index < value.length; index++) {
      this.path.push(`[${index}]`)
      if (typeof element === 'number') this.struct(to, element, value[index])
      else this.value(to, element!, false, null, value[index], false)
      this.path.pop()
    }
  }

  private value (
    to: Writer, wire: Wire, nullable: boolean, element: Element, value: unknown, inTag: boolean
  ): void {
    const size = SIZES[wire]
    if (size !== undefined) {
      this.fixed(to, wire, size, value)
    } else if (wire === 'array' || wire === 'compact_array') {
      this.array(to, wire === 'compact_array', nullable, element, value)
    } else if (wire !== 'struct') {
      this.variable(to, wire, nullable, value)
    } else if (value === null && nullable) {
      to.byte(inTag ? 0 : 255)
    } else {
      if (nullable) to.byte(1)
      this.struct(to, element as number, value)
    }
  }

  /** Write a struct by the number of its layout. */
  struct (to: Writer, number: number, value: unknown): void {
    const layout = this.layouts[number]!
    const name = this.structs[layout.struct]!.name
    if (value === null) this.refuse('null_for_non_nullable', `null, but ${name} wanted`)
    if (typeof value !== 'object' || isArray(value)) this.wrong(value, name)
    const fields = value as Fields
    for (const [field, ignorable, byDefault] of layout.absent) {
      const item = own(fields, field)
      if (!ignorable && !isDefault(this.structs, item, byDefault)) this.absent(field)
    }
    for (const [field, wire, nullable, element] of layout.fields) {
      const item = own(fields, field)
      this.path.push(field)
      if (item === undefined) this.refuse('missing_field', `${field} is not set`)
      this.value(to, wire, nullable, element, item, false)
      this.path.pop()
    }
    if (layout.flexible) this.tags(to, layout, fields)
    else if (fields.unknownTaggedFields?.length > 0) this.absent('_unknownTaggedFields')
  }

  private absent (field: string): never {
    this.path.push(field)
    const detail = 'this version has no such field, so it must keep its default'
    return this.refuse('field_not_in_version', detail)
  }

  private tags (to: Writer, layout: Layout, fields: Fields): void {
    const tags: TaggedField[] = []
    for (const [tag, field, wire, nullable, element, byDefault] of layout.tagged) {
      const item = own(fields, field)
      if (isDefault(this.structs, item, byDefault)) continue
      this.path.push(field)
      const inner = acquire()
      this.value(inner, wire, nullable, element, item, true)
      tags.push({ tag, data: inner })
      this.path.pop()
    }
    const unknown = fields.unknownTaggedFields
    if (unknown !== undefined) this.check(unknown, layout)
    to.tags(tags, unknown, [])
  }

  private check (unknown: unknown, layout: Layout): void {
    this.path.push('_unknownTaggedFields')
    if (!isArray(unknown)) this.wrong(unknown, 'an array')
    const taken = new Set([...layout.tagged.map(entry => entry[0]), ...layout.laterTags])
    let last = -1
    for (const entry of unknown) {
      const { tag, data } = Object(entry) as Fields
      if (!Number.isInteger(tag) || !(data instanceof Uint8Array)) {
        this.wrong(entry, 'a tag with its data')
      }
      if (tag < 0 || tag > INT_MAX) {
        this.refuse('integer_out_of_range', `tag ${tag} is not in 0..2^31-1`)
      }
      if (taken.has(tag) || tag === last) this.refuse('tag_duplicate', `tag ${tag} is taken`)
      if (tag < last) this.refuse('tag_out_of_order', `tag ${tag} follows tag ${last}`)
      last = tag
    }
    this.path.pop()
  }
}
