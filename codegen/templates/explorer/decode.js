// From bytes to fields that know their bytes, and from JSON to bytes: the TypeScript codecs' work.

import { batches, isLog } from './batches.js'
import { CATALOGUE, load } from './codecs/kafka/index.js'
import { CodecError } from './codecs/runtime/index.js'

export { CATALOGUE, CodecError, load }

const SIZE = 4

/** A message with more bytes has no JSON in the page: a text area with so much is slow. */
export const JSON_BYTES_MAX = 150_000

/** The name of the request or response of an API, or undefined. */
export function nameOf (type, apiKey) {
  return Object.keys(CATALOGUE).find((name) => {
    const entry = CATALOGUE[name]
    return entry.type === type && entry.apiKey === apiKey
  })
}

/**
 * Read hex: digits in pairs, with or without spaces, commas, colons, `0x` and `\x` between.
 *
 * Throws a SyntaxError that says where it is not hex.
 */
export function fromHex (text) {
  const digits = text.replace(/0x|\\x|[\s,:;]/gi, '')
  const wrong = digits.search(/[^0-9a-f]/i)
  if (wrong >= 0) throw new SyntaxError(`"${digits[wrong]}" after ${wrong} digits is no hex digit`)
  if (digits.length % 2) throw new SyntaxError(`${digits.length} hex digits: a byte has two`)
  return Uint8Array.from({ length: digits.length / 2 }, (_, at) => parseInt(digits.substr(2 * at, 2), 16))
}

export function toHex (data) {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Guess what bytes are: a request says so in its header, a log in its first batch. */
export function detect (data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  for (const start of [SIZE, 0]) {
    if (start === 0 && isLog(data)) return { kind: 'log' }
    if (data.length < start + 8 || (start && view.getInt32(0) !== data.length - SIZE)) continue
    const name = nameOf('request', view.getInt16(start))
    const version = view.getInt16(start + 2)
    const entry = CATALOGUE[name]
    if (entry && version >= entry.firstVersion && version <= entry.lastVersion) {
      return { kind: 'frame', name, version }
    }
  }
  return undefined
}

/**
 * Decode a message, or a frame of it with its header and, where it is there, its size; or a log.
 *
 * Record batches in a message are explained behind it; what is wrong with one is `batchError`.
 * Returns the spans of all parts with offsets into `data`, the body's JSON, where the body starts,
 * and the error, if there is one: its offset is one into `data`, too.
 */
export async function decode (data, kind, name, version) {
  if (kind === 'log') return { bodyOffset: 0, json: null, ...await batches(data, 0, data.length, '', 'log') }
  const message = await load(name)
  const spans = []
  let at = 0
  try {
    if (kind === 'frame') {
      const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
      if (data.length >= SIZE && view.getInt32(0) === data.length - SIZE) {
        spans.push({ part: 'frame', path: 'size', wire: 'int32', start: 0, end: SIZE, value: view.getInt32(0) })
        at = SIZE
      }
      at = await header(data, at, message, version, spans)
    }
    const body = data.subarray(at)
    const { spans: inner, error } = message.explain(body, version)
    const records = await withBatches(data, inner.map((span) => moved(span, message.name, at)))
    for (const span of records.spans) spans.push(span)
    if (error) throw error
    const json = body.length > JSON_BYTES_MAX
      ? null
      : message.toJsonText(message.decode(body, version), version, '  ')
    return { spans, bodyOffset: at, json, error: null, batchError: records.error }
  } catch (error) {
    if (!(error instanceof CodecError)) throw error
    const offset = error.offset === undefined ? undefined : error.offset + at
    const { errorClass, path, message: detail } = error
    return { spans, bodyOffset: at, json: null, error: { errorClass, path, offset, detail } }
  }
}

/** Put the batches of each field of records in its place. */
async function withBatches (data, found) {
  const spans = []
  let error = null
  for (const span of found) {
    spans.push(span)
    if (!span.wire.endsWith('records') || !span.value?.length) continue
    const start = span.end - span.value.length
    const inner = await batches(data, start, span.end, span.path, span.part)
    error ??= inner.error
    Object.assign(span, { wire: 'length', end: start, value: span.value.length })
    for (const one of inner.spans) spans.push(one)
  }
  return { spans, error }
}

async function header (data, at, message, version, spans) {
  const of = await load(message.type === 'request' ? 'RequestHeader' : 'ResponseHeader')
  const number = message.headerVersion(version)
  const rest = data.subarray(at)
  const { end } = of.decodeFrom(rest, 0, number)
  const { spans: inner } = of.explain(rest.subarray(0, end), number)
  spans.push(...inner.map((span) => moved(span, of.name, at)))
  return at + end
}

function moved (span, part, by) {
  return { ...span, part, start: span.start + by, end: span.end + by }
}

/** Return the bytes of a message from its JSON. */
export async function encode (json, name, version) {
  const message = await load(name)
  return message.encode(message.fromJsonText(json, version), version)
}

/** Return the JSON and the bytes of a message in which every field has its default. */
export async function example (name, version) {
  const message = await load(name)
  return message.encode(message.create(), version)
}
