// Text and bytes: UTF-8, Kafka's uuids, base64, hex.

import { refuse } from './errors.js'

const DECODER = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const ENCODER = new TextEncoder()
const SHORT_TEXT_BYTES = 24 // Beyond that the call of a TextDecoder pays.

const URL_SAFE = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const STANDARD = URL_SAFE.slice(0, 62) + '+/'
const UUID_BYTES = 16
const UUID_CHARS = 22

/** The uuid that means none. */
export const ZERO_UUID = 'AAAAAAAAAAAAAAAAAAAAAA'

function values (alphabet: string): Uint8Array {
  const table = new Uint8Array(128).fill(255)
  for (let at = 0; at < alphabet.length; at++) table[alphabet.charCodeAt(at)] = at
  return table
}
const FROM_URL_SAFE = values(URL_SAFE)
const FROM_STANDARD = values(STANDARD)
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Read UTF-8; throws on any other bytes. */
export function decodeText (data: Uint8Array, start: number, end: number): string {
  if (end - start <= SHORT_TEXT_BYTES) {
    let text = ''
    let at = start
    for (; at < end; at++) {
      const byte = data[at]!
      if (byte > 127) break
      text += String.fromCharCode(byte)
    }
    if (at === end) return text
  }
  return DECODER.decode(data.subarray(start, end))
}

/** Return how many bytes a text takes in UTF-8, or -1 if it holds half of a surrogate pair. */
export function textSize (text: string): number {
  let size = text.length
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit < 0x80) continue
    if (unit < 0x800) {
      size += 1
    } else if (unit < 0xd800 || unit > 0xdfff) {
      size += 2
    } else {
      // The pair is two units and four bytes.
      const next = text.charCodeAt(++at)
      if (unit > 0xdbff || !(next >= 0xdc00 && next <= 0xdfff)) return -1
      size += 2
    }
  }
  return size
}

/** Write a text that is known to be well-formed, and for which there is room. */
export function encodeText (text: string, data: Uint8Array, at: number): void {
  ENCODER.encodeInto(text, data.subarray(at))
}

/** Return a text of the base64 alphabets without padding. */
function base64 (data: Uint8Array, start: number, end: number, alphabet: string): string {
  let text = ''
  for (let at = start; at < end; at += 3) {
    const bits = (data[at]! << 16) | ((data[at + 1] ?? 0) << 8) | (data[at + 2] ?? 0)
    text += alphabet[bits >> 18]! + alphabet[(bits >> 12) & 63]!
    if (at + 1 < end) text += alphabet[(bits >> 6) & 63]!
    if (at + 2 < end) text += alphabet[bits & 63]!
  }
  return text
}

function isZero (data: Uint8Array, at: number, end: number): boolean {
  while (at < end) if (data[at++] !== 0) return false
  return true
}

/** Return the 22 characters in which Kafka prints the 16 bytes from `at` on. */
export function uuidText (data: Uint8Array, at: number): string {
  const end = at + UUID_BYTES
  if (end > data.length) refuse()
  if (data[at] === 0 && isZero(data, at, end)) return ZERO_UUID
  let text = ''
  for (; at < end - 1; at += 3) {
    const bits = (data[at]! << 16) | (data[at + 1]! << 8) | data[at + 2]!
    text += URL_SAFE[bits >> 18]! + URL_SAFE[(bits >> 12) & 63]! +
      URL_SAFE[(bits >> 6) & 63]! + URL_SAFE[bits & 63]!
  }
  const last = data[at]!
  return text + URL_SAFE[last >> 2]! + URL_SAFE[(last & 3) << 4]!
}

/** Read base64 digits into bytes; return the last bits that were read, -1 for a wrong digit. */
function readBase64 (
  text: string, length: number, values: ArrayLike<number>, data: Uint8Array, at: number,
): number {
  let wrong = 0
  let bits = 0
  let count = 0
  for (let index = 0; index < length; index++) {
    const value = values[text.charCodeAt(index)] ?? 255
    wrong |= value
    bits = ((bits << 6) | value) & 0xffffff
    count += 6
    if (count >= 8) {
      count -= 8
      data[at++] = bits >> count
    }
  }
  return wrong < 64 ? bits : -1
}

/** Write the bytes of a uuid; false if the text is not one as Kafka prints it. */
export function putUuid (text: string, data: Uint8Array, at: number): boolean {
  if (text === ZERO_UUID) {
    data.fill(0, at, at + UUID_BYTES)
    return true
  }
  if (text.length !== UUID_CHARS) return false
  const bits = readBase64(text, UUID_CHARS, FROM_URL_SAFE, data, at)
  // Four bits are left over: other texts than the one with zeros would mean the same uuid.
  return bits >= 0 && (bits & 15) === 0
}

/** Whether a text is a uuid as Kafka prints it. */
export function isUuid (text: string): boolean {
  return putUuid(text, new Uint8Array(UUID_BYTES), 0)
}

/** Return bytes as base64, with padding. */
export function toBase64 (data: Uint8Array): string {
  const parts: string[] = []
  for (let at = 0; at < data.length; at += 6144) {
    parts.push(base64(data, at, Math.min(at + 6144, data.length), STANDARD))
  }
  const text = parts.join('')
  return text + '='.repeat(-text.length & 3)
}

/** Read base64; undefined if the text is anything else. */
export function fromBase64 (text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0) return undefined
  const length = text.endsWith('==') ? text.length - 2 : text.length - (text.endsWith('=') ? 1 : 0)
  const data = new Uint8Array((length * 3) >> 2)
  return readBase64(text, length, FROM_STANDARD, data, 0) >= 0 ? data : undefined
}

/** Return bytes as hexadecimal digits. */
export function toHex (data: Uint8Array): string {
  const parts: string[] = []
  for (const byte of data) parts.push(HEX[byte]!)
  return parts.join('')
}

/** Read hexadecimal digits; undefined if the text is anything else. */
export function fromHex (text: string): Uint8Array | undefined {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text)) return undefined
  const data = new Uint8Array(text.length / 2)
  for (let at = 0; at < data.length; at++) data[at] = parseInt(text.slice(2 * at, 2 * at + 2), 16)
  return data
}

/** Return the default of a field of bytes. */
export function noBytes (): Uint8Array {
  return new Uint8Array(0)
}

/** Return a plain Uint8Array over the same bytes: subclasses change what slice and subarray do. */
export function plain (data: Uint8Array): Uint8Array {
  return data.constructor === Uint8Array
    ? data
    : new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
}
