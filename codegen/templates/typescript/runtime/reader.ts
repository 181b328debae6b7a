// What straight-line decoders call. It detects that an input is wrong, by any exception; which
// class, field and byte it is says the interpreter, which then reads the same bytes again.

import { decodeText, uuidText } from './bytes.js'
import { refuse } from './errors.js'
import { INT_MAX, STRING_BYTES_MAX, type UnknownTaggedField } from './layout.js'

const NO_BYTES = new Uint8Array(0)
const LIST_COUNT_MAX = 1024 // A count may be a lie: longer lists grow with what is really there.

/** Return a list for so many elements, which are then set in order. */
export function list<T> (count: number): T[] {
  return count <= LIST_COUNT_MAX ? new Array<T>(count) : []
}

export class Reader {
  readonly data: Uint8Array
  /** Throws by itself beyond the end of the input. */
  readonly view: DataView
  readonly end: number
  at: number

  constructor (data: Uint8Array, at: number) {
    this.data = data
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength)
    this.end = data.length
    this.at = at
  }

  /** Return where `size` bytes start, which `view` will check, and go on behind them. */
  take (size: number): number {
    const at = this.at
    this.at = at + size
    return at
  }

  /** Do the same for `count` elements of `size` bytes, which must be there. */
  block (count: number, size: number): number {
    const at = this.take(count * size)
    if (this.at > this.end) refuse()
    return at
  }

  uvarint (): number {
    const byte = this.data[this.at]!
    if (byte < 128) {
      this.at++
      return byte
    }
    return this.longUvarint()
  }

  private longUvarint (): number {
    let value = 0
    for (let scale = 1; scale <= 0x10000000; scale *= 128) {
      const byte = this.view.getUint8(this.at++)
      value += (byte & 127) * scale
      if (byte < 128) {
        if ((byte === 0 && scale > 1) || value > INT_MAX) refuse()
        return value
      }
    }
    return refuse()
  }

  bool (at: number): boolean {
    const byte = this.view.getUint8(at)
    if (byte > 1) refuse()
    return byte === 1
  }

  uuid (at: number): string {
    return uuidText(this.data, at)
  }

  // ------------------------------------------------------------ counts of arrays; -1 is null

  private counted (count: number): number {
    if (count < -1 || count > this.end - this.at) refuse()
    return count
  }

  nullableCount (): number {
    return this.counted(this.view.getInt32(this.take(4)))
  }

  compactNullableCount (): number {
    return this.counted(this.uvarint() - 1)
  }

  count (): number {
    const count = this.nullableCount()
    return count < 0 ? refuse() : count
  }

  compactCount (): number {
    const count = this.compactNullableCount()
    return count < 0 ? refuse() : count
  }

  // -------------------------------------------------------------------------------- strings

  private text (length: number): string {
    const start = this.at
    const end = start + length
    if (length < 0 || length > STRING_BYTES_MAX || end > this.end) refuse()
    this.at = end
    return decodeText(this.data, start, end)
  }

  string (): string {
    return this.text(this.view.getInt16(this.take(2)))
  }

  nullableString (): string | null {
    const length = this.view.getInt16(this.take(2))
    return length === -1 ? null : this.text(length)
  }

  compactString (): string {
    return this.text(this.uvarint() - 1)
  }

  compactNullableString (): string | null {
    const length = this.uvarint() - 1
    return length === -1 ? null : this.text(length)
  }

  // ----------------------------------------------------------- bytes, copied; records, a view

  /** Return a view of the next bytes. */
  private part (length: number): Uint8Array {
    const start = this.at
    const end = start + length
    if (length < 0 || end > this.end) refuse()
    this.at = end
    return length === 0 ? NO_BYTES : this.data.subarray(start, end)
  }

  bytes (): Uint8Array {
    return this.records().slice()
  }

  nullableBytes (): Uint8Array | null {
    const part = this.nullableRecords()
    return part && part.slice()
  }

  compactBytes (): Uint8Array {
    return this.compactRecords().slice()
  }

  compactNullableBytes (): Uint8Array | null {
    const part = this.compactNullableRecords()
    return part && part.slice()
  }

  records (): Uint8Array {
    return this.part(this.view.getInt32(this.take(4)))
  }

  nullableRecords (): Uint8Array | null {
    const length = this.view.getInt32(this.take(4))
    return length === -1 ? null : this.part(length)
  }

  compactRecords (): Uint8Array {
    return this.part(this.uvarint() - 1)
  }

  compactNullableRecords (): Uint8Array | null {
    const length = this.uvarint() - 1
    return length === -1 ? null : this.part(length)
  }

  // -------------------------------------------------------------------------- tagged fields

  /** Read a tag, which must be greater than the last one. */
  tag (last: number): number {
    const tag = this.uvarint()
    return tag > last ? tag : refuse()
  }

  /** Read the size of a tagged field, and return where the field ends. */
  tagEnd (): number {
    const size = this.uvarint()
    const end = this.at + size
    return end > this.end ? refuse() : end
  }

  unknownTag (tag: number, end: number): UnknownTaggedField {
    const data = this.data.slice(this.at, end)
    this.at = end
    return { tag, data }
  }

  /** Read the tagged fields of a struct that knows none; `later` are tags of other versions. */
  unknownTags (
    value: { unknownTaggedFields?: UnknownTaggedField[] }, later: readonly number[]
  ): void {
    const unknown: UnknownTaggedField[] = []
    let last = -1
    for (let count = this.uvarint(); count > 0; count--) {
      last = this.tag(last)
      const end = this.tagEnd()
      if (later.includes(last)) refuse()
      unknown.push(this.unknownTag(last, end))
    }
    if (unknown.length > 0) value.unknownTaggedFields = unknown
  }

  /** Read the marker of a nullable struct. */
  present (inTag: boolean): boolean {
    const marker = this.view.getUint8(this.at++)
    if (marker === 1) return true
    return marker === (inTag ? 0 : 255) ? false : refuse()
  }
}
