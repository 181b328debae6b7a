// What a record batch of magic 2 has: its fields, their places, and the form of its JSON.

import type { Layout, StructTable } from './layout.js'

/** A record batch. `attributes`: bits 0-2 compression, 3 log append time, 4 transactional, 5
 * control, 6 delete horizon. Timestamps are milliseconds; -1 is none of the other fields. */
export interface Batch {
  baseOffset: bigint
  partitionLeaderEpoch: number
  attributes: number
  lastOffsetDelta: number
  baseTimestamp: bigint
  maxTimestamp: bigint
  producerId: bigint
  producerEpoch: number
  baseSequence: number
  records: Batch.Record[]
}
export declare namespace Batch {
  /** A record; its deltas are to the base of the batch. `key` and `value` are views. */
  interface Record {
    attributes: number
    timestampDelta: bigint
    offsetDelta: number
    key: Uint8Array | null
    value: Uint8Array | null
    headers: Batch.Header[]
  }
  interface Header {
    key: string
    value: Uint8Array | null
  }
}

export type Kind = 'int8' | 'int16' | 'int32' | 'uint32' | 'int64'
export const VERSION = 2
export const HEADER: readonly (readonly [name: string, wire: Kind, at: number, size: number])[] = [
  ['baseOffset', 'int64', 0, 8],
  ['batchLength', 'int32', 8, 4],
  ['partitionLeaderEpoch', 'int32', 12, 4],
  ['magic', 'int8', 16, 1],
  ['crc', 'uint32', 17, 4],
  ['attributes', 'int16', 21, 2],
  ['lastOffsetDelta', 'int32', 23, 4],
  ['baseTimestamp', 'int64', 27, 8],
  ['maxTimestamp', 'int64', 35, 8],
  ['producerId', 'int64', 43, 8],
  ['producerEpoch', 'int16', 51, 2],
  ['baseSequence', 'int32', 53, 4],
  ['recordCount', 'int32', 57, 4]
]
export const [LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, COUNT_AT, RECORDS_AT] =
  [8, 16, 17, 21, 57, 61] as const
export const OVERHEAD = 12 // Before what the batch length counts.
export const COMPRESSION_MASK = 7

export const LAYOUTS: readonly Layout[] = [
  { struct: 0, flexible: false, tagged: [], absent: [], laterTags: [], fields: [
    ['baseOffset', 'int64', false, null],
    ['partitionLeaderEpoch', 'int32', false, null],
    ['attributes', 'int16', false, null],
    ['lastOffsetDelta', 'int32', false, null],
    ['baseTimestamp', 'int64', false, null],
    ['maxTimestamp', 'int64', false, null],
    ['producerId', 'int64', false, null],
    ['producerEpoch', 'int16', false, null],
    ['baseSequence', 'int32', false, null],
    ['records', 'array', false, 1]
  ] },
  { struct: 1, flexible: false, tagged: [], absent: [], laterTags: [], fields: [
    ['attributes', 'int8', false, null],
    ['timestampDelta', 'int64', false, null],
    ['offsetDelta', 'int32', false, null],
    ['key', 'bytes', true, null],
    ['value', 'bytes', true, null],
    ['headers', 'array', false, 2]
  ] },
  { struct: 2, flexible: false, tagged: [], absent: [], laterTags: [], fields: [
    ['key', 'string', false, null],
    ['value', 'bytes', true, null]
  ] }
]
export const STRUCTS: readonly StructTable[] = [
  { name: 'RecordBatch', fields: [
    ['baseOffset', 0n, -1], ['partitionLeaderEpoch', -1, -1], ['attributes', 0, -1],
    ['lastOffsetDelta', 0, -1], ['baseTimestamp', -1n, -1], ['maxTimestamp', -1n, -1],
    ['producerId', -1n, -1], ['producerEpoch', -1, -1], ['baseSequence', -1, -1],
    ['records', [], 1]
  ] },
  { name: 'Record', fields: [
    ['attributes', 0, -1], ['timestampDelta', 0n, -1], ['offsetDelta', 0, -1],
    ['key', null, -1], ['value', null, -1], ['headers', [], 2]
  ] },
  { name: 'Header', fields: [['key', '', -1], ['value', null, -1]] }
]
