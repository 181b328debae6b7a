// Record batches as fields that know their bytes; in them, the records of the metadata log.

import { CATALOGUE, load } from './codecs/kafka/index.js'
import { RecordBatch, byPieces, decompressors } from './codecs/runtime/record_batch.js'

const HEAD = 61 // Bytes of a batch before its records.
const OVERHEAD = 12 // Bytes before what the batch length counts.
const [LENGTH_AT, MAGIC_AT, ATTRIBUTES_AT] = [8, 16, 21]
const MAGIC = 2
const [COMPRESSION_MASK, COMPRESSION_MAX, GZIP, ZSTD] = [7, 4, 1, 4]
const INFLATED_MAX = 16 << 20
const SPANS_MAX = 100_000 // More make the page slow.
const METADATA_FRAME = 1 // The version of what is before a record of the metadata log.

/** Whether bytes begin with a record batch: those of a segment, a snapshot or a field. */
export function isLog (data) {
  return data.length >= HEAD && data[MAGIC_AT] === MAGIC && sizeAt(data, 0) >= HEAD &&
    data[ATTRIBUTES_AT] === 0 && (data[ATTRIBUTES_AT + 1] & COMPRESSION_MASK) <= COMPRESSION_MAX
}

function sizeAt (data, at) {
  return OVERHEAD + new DataView(data.buffer, data.byteOffset).getInt32(at + LENGTH_AT)
}

/**
 * Explain the batches from byte `at` to `end`, their paths behind `path`.
 *
 * Returns spans, and what was wrong with the first batch that is not as it should be. The records
 * of a batch that was compressed light up all of its compressed bytes.
 */
export async function batches (data, at, end, path, part) {
  const spans = []
  let error = null
  for (let index = 0; at < end; index++) {
    const size = end - at < HEAD ? 0 : sizeAt(data, at)
    const framed = size >= HEAD && size <= end - at
    const stop = framed ? at + size : end
    const before = `${path}[${index}]`
    if (spans.length > SPANS_MAX) {
      spans.push({ part, path: before, wire: 'unknown', start: at, end, value: data.subarray(at, end) })
      error ??= { errorClass: 'not shown', offset: at, path: before, detail: `the ${end - at} bytes from here on are too many for this page` }
      break
    }
    const found = await batch(data.subarray(at, stop), before, part, at)
    spans.push(...found.spans)
    error ??= found.error
    at = stop
  }
  return { spans, error }
}

async function batch (data, path, part, by) {
  const codec = data.length > HEAD ? data[ATTRIBUTES_AT + 1] & COMPRESSION_MASK : 0
  if (codec === GZIP) await prepareGzip(data.subarray(HEAD))
  if (codec === ZSTD && !decompressors.has(ZSTD)) {
    const { Decompress } = await import('./codecs/fzstd.js')
    const inflate = byPieces(Decompress)
    decompressors.set(ZSTD, (data, max) => inflate(data, Math.min(max, INFLATED_MAX)))
  }
  const { spans, error } = RecordBatch.explain(data, MAGIC)
  const out = []
  let [at, block] = [0, null]
  for (const span of spans) {
    const { wire, start, end, value, inflated } = span
    const moved = { part, path: `${path}.${span.path}`, wire, start: start + by, end: end + by, value, inflated }
    if (inflated) Object.assign(moved, block)
    else if (span.path === 'records') block = { start: moved.start, end: moved.end }
    if (!inflated) at = end
    out.push(moved)
    if (wire === 'bytes' && value?.[0] === METADATA_FRAME) out.push(...await inner(moved, span))
  }
  if (at < data.length) {
    out.push({ part, path, wire: 'unknown', start: at + by, end: data.length + by, value: data.subarray(at) })
  }
  if (!error) return { spans: out, error: null }
  const { errorClass, path: field, offset = 0, detail } = error
  return { spans: out, error: { errorClass, path: field ? `${path}.${field}` : path, offset: offset + by, detail } }
}

/** Return the fields of a record of the metadata log that a value holds; none for other values. */
async function inner (moved, span) {
  const { value } = span
  if (!/^records\[\d+\]\.value$/.test(span.path)) return []
  const [type, typeEnd] = uvarint(value, 1)
  const [version, at] = uvarint(value, typeEnd)
  const name = metadataNames()[type]
  const entry = CATALOGUE[name]
  if (!entry || version < entry.firstVersion || version > entry.lastVersion) return []
  const { spans, error } = (await load(name)).explain(value.subarray(at), version)
  if (error) return []
  const start = moved.end - value.length
  // The value itself keeps its length and what is before the record.
  if (!moved.inflated) moved.end = start + at
  return spans.map((one) => ({
    ...one, part: moved.part, path: `${moved.path}.${name} v${version}.${one.path}`,
    ...moved.inflated
      ? { start: moved.start, end: moved.end, inflated: true }
      : { start: one.start + start + at, end: one.end + start + at }
  }))
}

let metadata

/** The records of the metadata log by their type; those of remote storage have a log of their own. */
function metadataNames () {
  metadata ??= Object.fromEntries(Object.entries(CATALOGUE)
    .filter(([name, { type }]) => type === 'metadata' && !name.startsWith('Remote'))
    .map(([name, { apiKey }]) => [apiKey, name]))
  return metadata
}

function uvarint (data, at) {
  let value = 0
  for (let scale = 1; scale < 2 ** 21; scale *= 128) {
    const byte = data[at++]
    value += (byte & 127) * scale
    if (byte < 128) break
  }
  return [value, at]
}

/** What the browser gives is asynchronous, and the codecs are not: read ahead what they will ask. */
async function prepareGzip (data) {
  let plain
  try {
    plain = await gunzip(data)
  } catch (error) {
    plain = error
  }
  decompressors.set(GZIP, () => {
    if (plain instanceof Uint8Array) return plain
    throw plain
  })
}

async function gunzip (data) {
  const reader = new Blob([data]).stream().pipeThrough(new DecompressionStream('gzip')).getReader()
  const parts = []
  let size = 0
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    parts.push(read.value)
    size += read.value.length
    if (size > INFLATED_MAX) {
      await reader.cancel()
      throw new Error(`more than ${INFLATED_MAX} bytes: this page does not show them`)
    }
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer())
}
