// The interpreter that reads: slow and obvious, it names errors and tells where each field stands.

import { decodeText, uuidText } from './bytes.js'
import { CodecError, type ErrorClass } from './errors.js'
import {
  INT_MAX, STRING_BYTES_MAX, structOfDefaults, type Element, type Fields, type Layout,
  type StructTable, type TaggedLayout, type UnknownTaggedField, type Wire
} from './layout.js'

/**
 * A primitive as it was read: the bytes from `start` to `end` hold `value` of the field `path`.
 *
 * Beside the wire types there are `count` (of an array), `marker` (of a nullable struct),
 * `tag count`, `tag` (tag and size of a tagged field; `value` is the tag) and `unknown`. In record
 * batches there are `varint`, zigzag, and compressed records under the name of their compression.
 */
export interface Span {
  path: string
  wire: Wire | 'count' | 'marker' | 'tag count' | 'tag' | 'unknown'
    | 'varint' | 'gzip' | 'snappy' | 'lz4' | 'zstd'
  start: number
  end: number
  value: unknown
  /** The places are in decompressed bytes, and not in the input. */
  inflated?: true
}

export const SIZES: Partial<Record<Wire, number>> = {
  bool: 1,
  int8: 1,
  int16: 2,
  uint16: 2,
  int32: 4,
  uint32: 4,
  int64: 8,
  float64: 8,
  uuid: 16
}

/** Join the segments `topics`, `[0]`, `name` of a path. */
export function pathOf (segments: readonly string[]): string {
  return segments.join('.').replaceAll('.[', '[')
}

export class Decoder {
  at: number
  private readonly data: Uint8Array
  private readonly view: DataView
  private readonly structs: readonly StructTable[]
  private readonly layouts: readonly Layout[]
  private readonly spans: Span[] | undefined
  private readonly path: string[] = []

  constructor (
    data: Uint8Array, offset: number, structs: readonly StructTable[], layouts: readonly Layout[],
    spans?: Span[]
  ) {
    this.data = data
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength)
    this.at = offset
    this.structs = structs
    this.layouts = layouts
    this.spans = spans
  }

  private refuse (errorClass: ErrorClass, detail: string, offset: number): never {
    throw new CodecError(errorClass, detail, pathOf(this.path), offset)
  }

  private note (wire: Span['wire'], start: number, value: unknown): void {
    this.spans?.push({ path: pathOf(this.path), wire, start, end: this.at, value })
  }

  private get left (): number {
    return this.data.length - this.at
  }

  private uvarint (): number {
    const start = this.at
    let value = 0
    let byte = 128
    for (let scale = 1; byte > 127; scale *= 128) {
      if (scale > 0x10000000) {
        this.refuse('varint_overflow', 'a varint takes at most 5 bytes', start)
      }
      if (this.left < 1) {
        const cut = this.at === start ? 'truncated' : 'varint_truncated'
        this.refuse(cut, 'the input ends inside an unsigned varint', start)
      }
      byte = this.data[this.at++]!
      value += (byte & 127) * scale
    }
    if (byte === 0 && this.at - start > 1) {
      this.refuse('non_minimal_varint', `${value} is written in more bytes than needed`, start)
    }
    if (value > INT_MAX) this.refuse('varint_overflow', `${value} is more than ${INT_MAX}`, start)
    return value
  }

  private fixed (wire: Wire, size: number): unknown {
    const start = this.at
    if (this.left < size) {
      this.refuse('truncated', `${wire} takes ${size} bytes, ${this.left} are left`, start)
    }
    const value = this.scalar(wire, start)
    this.at += size
    this.note(wire, start, value)
    return value
  }

  private scalar (wire: Wire, at: number): unknown {
    switch (wire) {
      case 'bool': {
        const byte = this.view.getUint8(at)
        if (byte > 1) this.refuse('invalid_boolean', `a bool is 0 or 1, not ${byte}`, at)
        return byte === 1
      }
      case 'int8': return this.view.getInt8(at)
      case 'int16': return this.view.getInt16(at)
      case 'uint16': return this.view.getUint16(at)
      case 'int32': return this.view.getInt32(at)
      case 'uint32': return this.view.getUint32(at)
      case 'int64': return this.view.getBigInt64(at)
      case 'float64': return this.view.getFloat64(at)
      default: return uuidText(this.data, at)
    }
  }

  /** Read a length or a count; -1 is null. */
  private length (compact: boolean, short: boolean, nullable: boolean): number {
    const start = this.at
    let length: number
    if (compact) {
      length = this.uvarint() - 1
    } else {
      const width = short ? 2 : 4
      if (this.left < width) this.refuse('truncated', `the length takes ${width} bytes`, start)
      length = short ? this.view.getInt16(start) : this.view.getInt32(start)
      this.at += width
    }
    if (length < -1) this.refuse('negative_length', `length ${length} is negative`, start)
    if (length < 0 && !nullable) {
      this.refuse('null_for_non_nullable', 'null, but not nullable', start)
    }
    return length
  }

  private variable (wire: Wire, nullable: boolean): unknown {
    const start = this.at
    const compact = wire.startsWith('compact_')
    const text = wire.endsWith('string')
    const length = this.length(compact, text, nullable)
    if (length < 0) {
      this.note(wire, start, null)
      return null
    }
    if (text && length > STRING_BYTES_MAX) {
      const detail = `a string is at most ${STRING_BYTES_MAX} bytes, not ${length}`
      this.refuse('length_too_long', detail, start)
    }
    if (length > this.left) {
      const detail = `length ${length}, but ${this.left} bytes are left`
      this.refuse('length_exceeds_input', detail, start)
    }
    const from = this.at
    this.at += length
    const raw = this.data.subarray(from, this.at)
    const value = text ? this.text(from, start) : wire.endsWith('records') ? raw : raw.slice()
    this.note(wire, start, value)
    return value
  }

  private text (from: number, start: number): string {
    try {
      return decodeText(this.data, from, this.at)
    } catch {
      return this.refuse('invalid_utf8', 'the text is not UTF-8', start)
    }
  }

  private array (compact: boolean, nullable: boolean, element: Element): unknown[] | null {
    const start = this.at
    const count = this.length(compact, false, nullable)
    this.note('count', start, count < 0 ? null : count)
    if (count < 0) return null
    if (count > this.left) {
      const detail = `${count} elements, but ${this.left} bytes are left`
      this.refuse('length_exceeds_input', detail, start)
    }
    const out: unknown[] = []
    for (let index = 0; index < count; index++) {
      this.path.push(`[${index}]`)
      out.push(typeof element === 'number'
        ? this.struct(element)
        : this.value(element!, false, null, false))
      this.path.pop()
    }
    return out
  }

  private value (wire: Wire, nullable: boolean, element: Element, inTag: boolean): unknown {
    const size = SIZES[wire]
    if (size !== undefined) return this.fixed(wire, size)
    if (wire === 'array' || wire === 'compact_array') {
      return this.array(wire === 'compact_array', nullable, element)
    }
    if (wire !== 'struct') return this.variable(wire, nullable)
    return nullable && !this.present(inTag) ? null : this.struct(element as number)
  }

  /** Read a nullable struct's marker: uvarint 0 or 1 inside a tag, int8 -1 or 1 elsewhere. */
  private present (inTag: boolean): boolean {
    const start = this.at
    if (this.left < 1) this.refuse('truncated', 'a struct marker takes 1 byte', start)
    const marker = inTag ? this.uvarint() : this.view.getInt8(this.at++)
    const none = inTag ? 0 : -1
    if (marker !== none && marker !== 1) {
      const detail = `a struct marker is ${none} (null) or 1 (present), not ${marker}`
      this.refuse('invalid_struct_marker', detail, start)
    }
    this.note('marker', start, marker)
    return marker === 1
  }

  /** Read a struct by the number of its layout. */
  struct (number: number): Fields {
    const layout = this.layouts[number]!
    const out = structOfDefaults(this.structs, layout.struct)
    for (const [name, wire, nullable, element] of layout.fields) {
      this.path.push(name)
      out[name] = this.value(wire, nullable, element, false)
      this.path.pop()
    }
    if (layout.flexible) this.tags(layout, out)
    return out
  }

  private tags (layout: Layout, out: Fields): void {
    const start = this.at
    const count = this.uvarint()
    this.note('tag count', start, count)
    const unknown: UnknownTaggedField[] = []
    let last = -1
    for (let index = 0; index < count; index++) {
      const tagAt = this.at
      const tag = this.uvarint()
      if (tag <= last) {
        const order = tag === last ? 'tag_duplicate' : 'tag_out_of_order'
        this.refuse(order, `tag ${tag} follows tag ${last}`, tagAt)
      }
      last = tag
      if (layout.laterTags.includes(tag)) {
        this.refuse('tag_below_version', `tag ${tag} is of another version only`, tagAt)
      }
      const sizeAt = this.at
      const size = this.uvarint()
      this.note('tag', tagAt, tag)
      if (size > this.left) {
        const detail = `tag ${tag} has ${size} bytes, ${this.left} are left`
        this.refuse('length_exceeds_input', detail, sizeAt)
      }
      const known = layout.tagged.find(entry => entry[0] === tag)
      if (known !== undefined) {
        this.known(known, size, sizeAt, out)
      } else {
        this.at += size
        const data = this.data.slice(this.at - size, this.at)
        unknown.push({ tag, data })
        this.note('unknown', this.at - size, data)
      }
    }
    if (unknown.length > 0) out.unknownTaggedFields = unknown
  }

  private known (
    [tag, name, wire, nullable, element]: TaggedLayout, size: number, sizeAt: number, out: Fields
  ): void {
    const body = this.at
    this.path.push(name)
    out[name] = this.value(wire, nullable, element, true)
    if (this.at - body !== size) {
      const detail = `tag ${tag} says ${size} bytes and holds ${this.at - body}`
      this.refuse('tagged_size_mismatch', detail, sizeAt)
    }
    this.path.pop()
  }
}
