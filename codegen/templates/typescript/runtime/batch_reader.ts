// Reads a record batch, and names what is wrong and where each field stands.

import {
  ATTRIBUTES_AT, COMPRESSION_MASK, COUNT_AT, CRC_AT, HEADER, LENGTH_AT, MAGIC_AT, OVERHEAD,
  RECORDS_AT, VERSION, type Batch, type Kind
} from './batch_layout.js'
import { decodeText } from './bytes.js'
import { COMPRESSIONS, decompressedBytesMax, decompressors } from './compression.js'
import { crc32c } from './crc.js'
import type { Span } from './decoder.js'
import { CodecError, type ErrorClass } from './errors.js'
import type { Decoded } from './message.js'

/** The head of a batch and its records, still as they stand in the input. */
interface Head {
  fields: Omit<Batch, 'records'>
  count: number
  at: number
  end: number
}

const LEGACY_LENGTH_MIN = 14 // The least of any magic.
const RECORD_BYTES_MIN = 7

function refuse (errorClass: ErrorClass, detail: string, path: string, offset: number): never {
  throw new CodecError(errorClass, detail, path, offset)
}

/**
 * Read the batch at `offset`; `spans` gets the place of each field, also before an error.
 *
 * Of a compressed batch, the spans of the records have their places in the decompressed bytes, and
 * `inflated`.
 */
export function readBatch (data: Uint8Array, offset: number, spans?: Span[]): Decoded<Batch> {
  const head = readHead(data, offset, spans)
  const raw = data.subarray(head.at, head.end)
  const codec = head.fields.attributes & COMPRESSION_MASK
  const inflated = codec !== 0 && (raw.length > 0 || head.count !== 0)
  if (inflated) {
    const name = COMPRESSIONS[codec]
    if (name === undefined) {
      const detail = `there is no compression ${codec}`
      refuse('unknown_compression', detail, 'attributes', offset + ATTRIBUTES_AT)
    }
    spans?.push({ path: 'records', wire: name, start: head.at, end: head.end, value: raw })
  }
  const block = inflated ? inflate(codec, raw, head.at) : raw
  const reader = new RecordReader(block, offset, head, inflated, spans)
  return { value: { ...head.fields, records: reader.all() }, end: head.end }
}

function readHead (data: Uint8Array, offset: number, spans?: Span[]): Head {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  const left = data.length - offset
  const values: Record<string, number | bigint> = {}
  for (const [name, wire, at, size] of HEADER) {
    if (at + size > left) break
    values[name] = numberAt(view, wire, offset + at)
    const start = offset + at
    spans?.push({ path: name, wire, start, end: start + size, value: values[name] })
  }
  const size = frameSize(view, offset, left)
  const actual = crc32c(data, offset + ATTRIBUTES_AT, offset + size)
  const crc = view.getUint32(offset + CRC_AT)
  if (actual !== crc) {
    const detail = `the CRC-32C of the batch is ${hex(actual)}, its header says ${hex(crc)}`
    refuse('crc_mismatch', detail, 'crc', offset + CRC_AT)
  }
  const { batchLength: _l, magic: _m, crc: _c, recordCount, ...fields } = values
  return {
    fields: fields as unknown as Head['fields'],
    count: recordCount as number,
    at: offset + RECORDS_AT,
    end: offset + size
  }
}

function numberAt (view: DataView, wire: Kind, at: number): number | bigint {
  switch (wire) {
    case 'int8': return view.getInt8(at)
    case 'int16': return view.getInt16(at)
    case 'int32': return view.getInt32(at)
    case 'uint32': return view.getUint32(at)
    default: return view.getBigInt64(at)
  }
}

function short (length: number, least: string, offset: number): never {
  const detail = `a batch length of ${length} is less than ${least} takes`
  return refuse('batch_length_mismatch', detail, 'batchLength', offset + LENGTH_AT)
}

/** Return the size of the batch, which must be whole and of magic 2. */
function frameSize (view: DataView, offset: number, left: number): number {
  let whole = left
  if (left > MAGIC_AT) {
    const length = view.getInt32(offset + LENGTH_AT)
    const magic = view.getInt8(offset + MAGIC_AT)
    if (length < LEGACY_LENGTH_MIN) {
      short(length, 'any batch', offset)
    }
    if (magic !== VERSION) {
      const old = magic === 0 || magic === 1
      const detail = old
        ? `message format v${magic}, which Kafka 4.0 no longer reads`
        : `there is no magic ${magic}`
      refuse('bad_magic', detail, 'magic', offset + MAGIC_AT)
    }
    if (length < RECORDS_AT - OVERHEAD) {
      short(length, 'a header', offset)
    }
    whole = length + OVERHEAD
  }
  const least = Math.max(whole, RECORDS_AT)
  if (left < least) {
    const cut: readonly [string, unknown, number, ...unknown[]] = left >= RECORDS_AT
      ? ['records', '', RECORDS_AT]
      : [...HEADER].reverse().find(([, , at]) => at <= left)!
    const detail = `a batch of at least ${least} bytes, ${left} are left`
    refuse('truncated', detail, cut[0], offset + cut[2])
  }
  return whole
}

function inflate (codec: number, raw: Uint8Array, offset: number): Uint8Array {
  const inflater = decompressors.get(codec)
  if (inflater === undefined) {
    const detail = `nothing here reads ${COMPRESSIONS[codec]}: put it into decompressors`
    return refuse('unknown_compression', detail, 'records', offset)
  }
  try {
    return inflater(raw, decompressedBytesMax(raw.length))
  } catch (error) {
    const errorClass = error instanceof CodecError ? error.errorClass : 'unknown_compression'
    const at = error instanceof CodecError ? error.offset ?? 0 : 0
    return refuse(errorClass, String((error as Error).message), 'records', offset + at)
  }
}

class RecordReader {
  private at = 0
  private record = 0
  private last = -1
  private path = ''
  private readonly data: Uint8Array
  private readonly offset: number
  private readonly head: Head
  private readonly inflated: boolean
  private spans: Span[] | undefined

  constructor (data: Uint8Array, offset: number, head: Head, inflated: boolean, spans?: Span[]) {
    this.data = data
    this.offset = offset
    this.head = head
    this.inflated = inflated
    this.spans = spans
  }

  private refuse (errorClass: ErrorClass, detail: string, at: number, field = ''): never {
    const told = this.inflated ? `${detail} (byte ${at} of the decompressed records)` : detail
    const path = `records[${this.record}]${field && '.'}${field}`
    return refuse(errorClass, told, path, this.head.at + (this.inflated ? 0 : at))
  }

  private note (field: string, wire: Span['wire'], start: number, value: unknown): void {
    if (this.spans === undefined) return
    const by = this.inflated ? 0 : this.head.at
    const path = `${this.path}${field}`
    const span: Span = { path, wire, start: start + by, end: this.at + by, value }
    if (this.inflated) span.inflated = true
    this.spans.push(span)
  }

  /** Read a zigzag varint that may not pass `end`; up to 32 bits, or up to 64. */
  private varint (end: number, field: string, bits = 32): bigint {
    const start = this.at
    const first = this.data[start]!
    if (start < end && first < 128) { // Nearly all.
      this.at++
      return BigInt((first >> 1) ^ -(first & 1))
    }
    const most = Math.floor((bits + 6) / 7)
    let value = 0n
    for (let size = 0; ; size++) {
      if (size === most) this.refuse('varint_overflow', 'a varint is too long', start, field)
      if (start + size >= end) {
        const cut = size === 0 ? 'truncated' : 'varint_truncated'
        this.refuse(cut, 'the bytes end where a varint should', start, field)
      }
      const byte = this.data[start + size]!
      value |= BigInt(byte & 127) << BigInt(7 * size)
      if (byte > 127) continue
      if (byte === 0 && size > 0) {
        const detail = 'a varint takes more bytes than its value needs'
        this.refuse('non_minimal_varint', detail, start, field)
      }
      if (value >> BigInt(bits)) {
        this.refuse('varint_overflow', `a varint has more than ${bits} bits`, start, field)
      }
      this.at = start + size + 1
      return (value >> 1n) ^ -(value & 1n)
    }
  }

  private int (end: number, field: string): number {
    const byte = this.data[this.at]!
    if (this.at >= end || byte > 127) return Number(this.varint(end, field))
    this.at++
    return (byte >> 1) ^ -(byte & 1)
  }

  private length (end: number, field: string): number {
    const start = this.at
    const length = this.int(end, field)
    if (length < 0) {
      this.refuse('negative_length', `a length of ${length} is negative`, start, field)
    }
    if (length > end - this.at) {
      const detail = `${length} bytes are announced, ${end - this.at} are left`
      this.refuse('length_exceeds_input', detail, start, field)
    }
    return length
  }

  private sized (end: number, field: string): Uint8Array | null {
    const start = this.at
    let value: Uint8Array | null = null
    if (start < end && this.data[start] === 1) { // The zigzag varint of -1.
      this.at++
    } else {
      const length = this.length(end, field)
      value = this.data.subarray(this.at, this.at += length)
    }
    this.note(field, 'bytes', start, value)
    return value
  }

  private headers (end: number): Batch.Header[] {
    const start = this.at
    const count = this.int(end, 'headers')
    if (count < 0) {
      this.refuse('negative_length', `a count of ${count} headers is negative`, start, 'headers')
    }
    if (count > (end - this.at) / 2) {
      const detail = `${count} headers do not fit in the ${end - this.at} bytes left`
      this.refuse('length_exceeds_input', detail, start, 'headers')
    }
    this.note('headers', 'count', start, count)
    return Array.from({ length: count }, (_, index) => this.header(end, index))
  }

  private header (end: number, index: number): Batch.Header {
    const start = this.at
    const field = `headers[${index}].key`
    const length = this.length(end, field)
    let key: string
    try {
      key = decodeText(this.data, this.at, this.at += length)
    } catch {
      return this.refuse('invalid_utf8', 'the key of a header is not UTF-8', start, field)
    }
    this.note(field, 'string', start, key)
    return { key, value: this.sized(end, `headers[${index}].value`) }
  }

  private next (): Batch.Record {
    if (this.spans !== undefined) this.path = `records[${this.record}].`
    const start = this.at
    const length = this.length(this.data.length, 'length')
    const end = this.at + length
    this.note('length', 'varint', start, length)
    if (length === 0) this.refuse('truncated', 'a record of no bytes', this.at, 'attributes')
    const attributes = (this.data[this.at++]! << 24) >> 24
    this.note('attributes', 'int8', this.at - 1, attributes)
    const stampAt = this.at
    const timestampDelta = this.varint(end, 'timestampDelta', 64)
    this.note('timestampDelta', 'varint', stampAt, timestampDelta)
    const deltaAt = this.at
    const offsetDelta = this.int(end, 'offsetDelta')
    const { lastOffsetDelta } = this.head.fields
    if (offsetDelta <= this.last || offsetDelta > lastOffsetDelta) {
      const detail =
        `an offset delta of ${offsetDelta} after ${this.last}; the last is ${lastOffsetDelta}`
      this.refuse('offset_delta_disorder', detail, deltaAt, 'offsetDelta')
    }
    this.last = offsetDelta
    this.note('offsetDelta', 'varint', deltaAt, offsetDelta)
    const key = this.sized(end, 'key')
    const value = this.sized(end, 'value')
    const headers = this.headers(end)
    if (this.at < end) {
      this.refuse('trailing', `${end - this.at} bytes after the last field of a record`, this.at)
    }
    this.record++
    return { attributes, timestampDelta, offsetDelta, key, value, headers }
  }

  /** Read as many records as the header says, which must end with the batch. */
  all (): Batch.Record[] {
    const { count } = this.head
    const end = this.data.length
    if (count < 0) {
      const detail = `a count of ${count} records is negative`
      refuse('negative_length', detail, 'recordCount', this.offset + COUNT_AT)
    }
    if (count > end / RECORD_BYTES_MIN) {
      this.miscounted(`${count} records do not fit in ${end} bytes`)
    }
    const out: Batch.Record[] = []
    while (out.length < count) {
      if (this.at === end) {
        this.miscounted(`the header says ${count} records, there are ${out.length}`)
      }
      out.push(this.next())
    }
    if (this.at < end) this.rest(count)
    return out
  }

  /** Say what follows the last record: one that was not counted, or no record. */
  private rest (count: number): never {
    const start = this.at
    this.spans = undefined
    try {
      this.next()
    } catch (error) {
      if (!(error instanceof CodecError)) throw error
      const left = this.data.length - start
      this.refuse('trailing', `${left} bytes after the last of ${count} records`, start)
    }
    return this.miscounted(`the header says ${count} records, there are more`)
  }

  private miscounted (detail: string): never {
    return refuse('record_count_mismatch', detail, 'recordCount', this.offset + COUNT_AT)
  }
}

function hex (value: number): string {
  return `0x${value.toString(16).padStart(8, '0')}`
}
