// What straight-line encoders call. It detects that a value is wrong, by any exception; which class
// and field it is says the interpreter, which then looks at the same value again.

import { encodeText, putUuid, textSize } from './bytes.js'
import { refuse } from './errors.js'
import { INT_MAX, STRING_BYTES_MAX, type UnknownTaggedField } from './layout.js'

const FIRST_BYTES = 1024
const KEPT_BYTES_MAX = 1 << 20 // A writer that has grown beyond that is not used again.
export const PART_BYTES_MIN = 4096 // Copying less costs no more than one more part.
const SHORT_TEXT_CHARS = 32 // Beyond that the call of a TextEncoder pays.

/** Bytes that were not copied: they belong before byte `at` of the buffer. */
interface Part {
  at: number
  data: Uint8Array
}

export class Writer {
  data = new Uint8Array(FIRST_BYTES)
  view = new DataView(this.data.buffer)
  at = 0
  private parts: Part[] = []
  private partsSize = 0

  get size (): number {
    return this.at + this.partsSize
  }

  /**
   * Return where `size` bytes may be written, and go on behind them. `data` and `view` may be new
   * ones afterwards: they are not to be read before this call in one expression.
   */
  room (size: number): number {
    const at = this.at
    const end = at + size
    if (end > this.data.length) this.grow(end)
    this.at = end
    return at
  }

  private grow (least: number): void {
    const data = new Uint8Array(Math.max(least, 2 * this.data.length))
    data.set(this.data.subarray(0, this.at))
    this.data = data
    this.view = new DataView(data.buffer)
  }

  /** Make ready for another message. */
  reset (): boolean {
    this.at = 0
    if (this.partsSize > 0) {
      this.parts = []
      this.partsSize = 0
    }
    return this.data.length <= KEPT_BYTES_MAX
  }

  /** Return all that was written, in one piece. */
  whole (): Uint8Array {
    if (this.partsSize === 0) return this.data.slice(0, this.at)
    const out = new Uint8Array(this.size)
    this.copyTo(out, 0)
    return out
  }

  /** Return all that was written, in pieces; large bytes are those of the value itself. */
  pieces (): Uint8Array[] {
    const pieces: Uint8Array[] = []
    let from = 0
    for (const { at, data } of this.parts) {
      if (at > from) pieces.push(this.data.slice(from, at))
      pieces.push(data)
      from = at
    }
    if (this.at > from) pieces.push(this.data.slice(from, this.at))
    return pieces
  }

  private copyTo (out: Uint8Array, to: number): void {
    let from = 0
    for (const { at, data } of this.parts) {
      out.set(this.data.subarray(from, at), to)
      to += at - from
      out.set(data, to)
      to += data.length
      from = at
    }
    out.set(this.data.subarray(from, this.at), to)
  }

  byte (value: number): void {
    const at = this.room(1)
    this.data[at] = value
  }

  uvarint (value: number): void {
    if (value < 128) {
      this.byte(value)
      return
    }
    if (value > INT_MAX) refuse()
    for (; value > 127; value >>>= 7) this.byte((value & 127) | 128)
    this.byte(value)
  }

  // -------------------------------------------------------------- arrays: count, then elements

  count (count: number): void {
    const at = this.room(4)
    this.view.setInt32(at, count)
  }

  compactCount (count: number): void {
    this.uvarint(count + 1)
  }

  // -------------------------------------------------------------------------------- scalars

  uuidAt (at: number, value: string): void {
    if (!putUuid(value, this.data, at)) refuse()
  }

  string (value: string): void {
    if (typeof value !== 'string') refuse()
    const length = value.length
    const start = this.at
    if (length <= SHORT_TEXT_CHARS) {
      const at = this.room(length + 2)
      this.data[at] = 0
      this.data[at + 1] = length
      if (this.ascii(value, at + 2)) return
      this.at = start
    }
    const size = sizeOf(value)
    const at = this.room(size + 2)
    this.view.setInt16(at, size)
    encodeText(value, this.data, at + 2)
  }

  compactString (value: string): void {
    if (typeof value !== 'string') refuse()
    const length = value.length
    const start = this.at
    if (length <= SHORT_TEXT_CHARS) {
      const at = this.room(length + 1)
      this.data[at] = length + 1
      if (this.ascii(value, at + 1)) return
      this.at = start
    }
    const size = sizeOf(value)
    this.uvarint(size + 1)
    const at = this.room(size)
    encodeText(value, this.data, at)
  }

  private ascii (value: string, at: number): boolean {
    const data = this.data
    for (let index = 0; index < value.length; index++) {
      const unit = value.charCodeAt(index)
      if (unit > 127) return false
      data[at + index] = unit
    }
    return true
  }

  nullableString (value: string | null): void {
    if (value === null) {
      const at = this.room(2)
      this.view.setInt16(at, -1)
    } else {
      this.string(value)
    }
  }

  compactNullableString (value: string | null): void {
    if (value === null) this.byte(0)
    else this.compactString(value)
  }

  bytes (value: Uint8Array): void {
    this.count(value.length)
    this.raw(value)
  }

  compactBytes (value: Uint8Array): void {
    this.uvarint(value.length + 1)
    this.raw(value)
  }

  nullableBytes (value: Uint8Array | null): void {
    if (value === null) this.count(-1)
    else this.bytes(value)
  }

  compactNullableBytes (value: Uint8Array | null): void {
    if (value === null) this.byte(0)
    else this.compactBytes(value)
  }

  raw (value: Uint8Array): void {
    if (!(value instanceof Uint8Array) || value.length > INT_MAX - 1) refuse()
    if (value.length >= PART_BYTES_MIN) {
      this.parts.push({ at: this.at, data: value })
      this.partsSize += value.length
    } else {
      const at = this.room(value.length)
      this.data.set(value, at)
    }
  }

  // -------------------------------------------------------------------------- tagged fields

  /** Write a section: known fields and unknown ones in ascending order of their tags. */
  tags (
    known: readonly TaggedField[], unknown: readonly UnknownTaggedField[] | undefined,
    reserved: readonly number[]
  ): void {
    let tags = known
    if (unknown !== undefined && unknown.length !== 0) {
      if (!Array.isArray(unknown)) refuse()
      let last = -1
      for (const { tag, data } of unknown) {
        if (!(tag > last && (tag | 0) === tag) || reserved.includes(tag)) refuse()
        if (!(data instanceof Uint8Array)) refuse()
        last = tag
      }
      tags = [...known, ...unknown].sort((one, other) => one.tag - other.tag)
    }
    this.uvarint(tags.length)
    for (const { tag, data } of tags) {
      this.uvarint(tag)
      if (data instanceof Writer) {
        this.uvarint(data.size)
        this.append(data)
        release(data)
      } else {
        this.uvarint(data.length)
        this.raw(data)
      }
    }
  }

  private append (other: Writer): void {
    const at = this.room(other.at)
    this.data.set(other.data.subarray(0, other.at), at)
    for (const part of other.parts) {
      this.parts.push({ at: at + part.at, data: part.data })
      this.partsSize += part.data.length
    }
  }
}

/** A tagged field that is to be written. */
export interface TaggedField {
  tag: number
  data: Writer | Uint8Array
}

function sizeOf (text: string): number {
  const size = textSize(text)
  return size < 0 || size > STRING_BYTES_MAX ? refuse() : size
}

const free: Writer[] = []

/** Return a writer for a message or for a tagged field. */
export function acquire (): Writer {
  return free.pop() ?? new Writer()
}

/** Give a writer back. */
export function release (writer: Writer): void {
  if (writer.reset() && free.length < 8) free.push(writer)
}

// ------------------------------------------- checks of values; each returns what it was given

export function bool (value: boolean): 0 | 1 {
  return value === true ? 1 : value === false ? 0 : refuse()
}

export function int8 (value: number): number {
  return value << 24 >> 24 === value ? value : refuse()
}

export function int16 (value: number): number {
  return value << 16 >> 16 === value ? value : refuse()
}

export function uint16 (value: number): number {
  return (value & 0xffff) === value ? value : refuse()
}

export function int32 (value: number): number {
  return (value | 0) === value ? value : refuse()
}

export function uint32 (value: number): number {
  return value >>> 0 === value ? value : refuse()
}

export function int64 (value: bigint): bigint {
  return BigInt.asIntN(64, value) === value ? value : refuse()
}

export function float64 (value: number): number {
  return typeof value === 'number' ? value : refuse()
}

export function array<T> (value: readonly T[]): readonly T[] {
  return Array.isArray(value) ? value : refuse()
}

/** Refuse what is not an object with fields. */
export function struct (value: object): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) refuse()
}
