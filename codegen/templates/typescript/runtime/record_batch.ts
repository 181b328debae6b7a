// Record batches of magic 2, which have no schema: a message like the others, of version 2.
//
// The facts are those of `org.apache.kafka.common.record.DefaultRecordBatch`. The batch length, the
// magic, the CRC and the record count follow from the rest; decoding checks them.

import {
  ATTRIBUTES_AT, COMPRESSION_MASK, CRC_AT, HEADER, LAYOUTS, OVERHEAD, RECORDS_AT, STRUCTS, VERSION,
  type Batch, type Kind
} from './batch_layout.js'
import { readBatch } from './batch_reader.js'
import { encodeText, plain, textSize } from './bytes.js'
import { COMPRESSIONS } from './compression.js'
import { crc32c } from './crc.js'
import type { Span } from './decoder.js'
import { Encoder } from './encoder.js'
import { CodecError } from './errors.js'
import { INT_MAX } from './layout.js'
import { Message, type Decoded, type Explained } from './message.js'
import { acquire, type Writer } from './writer.js'

export type { Batch } from './batch_layout.js'
export {
  byPieces, COMPRESSIONS, decompressors, type Decompressor, type Pieces
} from './compression.js'

class BatchMessage extends Message<Batch> {
  constructor () {
    super({
      name: 'RecordBatch', type: 'data', apiKey: null, firstVersion: VERSION,
      firstFlexible: VERSION + 1, headerVersions: [null], structs: STRUCTS, layouts: LAYOUTS,
      plans: [0], encoders: [], decoders: []
    })
  }

  /** A batch that was compressed can be looked at, though it cannot be written. */
  protected override check (value: Batch, version: number): void {
    new Encoder(STRUCTS, LAYOUTS).struct(acquire(), this.layout(version), value)
  }

  protected override written (
    value: Batch, version: number, parts: boolean
  ): Uint8Array | Uint8Array[] {
    this.check(value, version)
    const data = encodeBatch(value)
    return parts ? [data] : data
  }

  override decodeFrom (data: Uint8Array, offset: number, version: number): Decoded<Batch> {
    this.layout(version)
    const bytes = plain(data)
    if (!(offset >= 0 && offset <= bytes.length)) {
      const detail = `the input has ${bytes.length} bytes`
      throw new CodecError('truncated', detail, '', Math.max(offset, 0))
    }
    return readBatch(bytes, offset)
  }

  override explain (data: Uint8Array, version: number, offset = 0): Explained<Batch> {
    const bytes = plain(data)
    const spans: Span[] = []
    try {
      this.layout(version)
      const { value, end } = readBatch(bytes, offset, spans)
      if (end === bytes.length) return { spans, value }
      const detail = `${bytes.length - end} bytes follow the batch`
      return { spans, value, error: new CodecError('trailing', detail, '', end) }
    } catch (error) {
      if (error instanceof CodecError) return { spans, error }
      throw error
    }
  }
}

/** Encodes and decodes record batches, as a message of the only version 2. */
export const RecordBatch = new BatchMessage()

// ------------------------------------------------------------------------------------ writing

function encodeBatch (value: Batch): Uint8Array {
  const codec = value.attributes & COMPRESSION_MASK
  if (codec !== 0 && (value.records.length > 0 || COMPRESSIONS[codec] === undefined)) {
    const detail = COMPRESSIONS[codec] === undefined
      ? `there is no compression ${codec}`
      : 'these codecs do not compress'
    throw new CodecError('unknown_compression', detail, 'attributes')
  }
  const to = acquire()
  const head = to.room(RECORDS_AT)
  let last = -1
  value.records.forEach((record, index) => {
    const { offsetDelta } = record
    if (offsetDelta <= last || offsetDelta > value.lastOffsetDelta) {
      const detail = `${offsetDelta} does not lie above ${last} and up to ${value.lastOffsetDelta}`
      throw new CodecError('offset_delta_disorder', detail, `records[${index}].offsetDelta`)
    }
    last = offsetDelta
    const body = putRecord(record)
    putVarint(to, BigInt(body.length))
    to.raw(body)
  })
  const data = to.whole()
  if (data.length - OVERHEAD > INT_MAX) {
    throw new CodecError('length_too_long', `a batch of ${data.length} bytes`, 'records')
  }
  const view = new DataView(data.buffer, data.byteOffset)
  const numbers: Record<string, unknown> = {
    ...value,
    batchLength: data.length - OVERHEAD,
    magic: VERSION,
    crc: 0,
    recordCount: value.records.length
  }
  for (const [name, wire, at] of HEADER) putNumber(view, wire, head + at, numbers[name])
  view.setUint32(head + CRC_AT, crc32c(data, head + ATTRIBUTES_AT, data.length))
  return data
}

function putNumber (view: DataView, wire: Kind, at: number, value: unknown): void {
  switch (wire) {
    case 'int8': return view.setInt8(at, value as number)
    case 'int16': return view.setInt16(at, value as number)
    case 'int32': case 'uint32': return view.setInt32(at, value as number)
    default: return view.setBigInt64(at, value as bigint)
  }
}

function putVarint (to: Writer, value: bigint): void {
  let left = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
  for (; left > 127n; left >>= 7n) to.byte(Number(left & 127n) | 128)
  to.byte(Number(left))
}

function putSized (to: Writer, value: Uint8Array | null): void {
  putVarint(to, BigInt(value === null ? -1 : value.length))
  if (value !== null) to.raw(value)
}

function putRecord (record: Batch.Record): Uint8Array {
  const to = acquire()
  to.byte(record.attributes & 255)
  putVarint(to, record.timestampDelta)
  putVarint(to, BigInt(record.offsetDelta))
  putSized(to, record.key)
  putSized(to, record.value)
  putVarint(to, BigInt(record.headers.length))
  for (const { key, value } of record.headers) {
    const text = new Uint8Array(textSize(key))
    encodeText(key, text, 0)
    putSized(to, text)
    putSized(to, value)
  }
  return to.whole()
}
