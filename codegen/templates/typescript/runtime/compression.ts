// What reads compressed record batches. Snappy and lz4 are here; gzip and zstd come from where the
// codecs run: `node:zlib` has gzip, and zstd from Node.js 22.15 on, a browser gzip.

import { CodecError } from './errors.js'

/** The compressions of record batches, by the number in their attributes. */
export const COMPRESSIONS: Readonly<Record<number, 'gzip' | 'snappy' | 'lz4' | 'zstd'>> = {
  1: 'gzip', 2: 'snappy', 3: 'lz4', 4: 'zstd'
}

/** No batch is decompressed to more bytes, */
const DECOMPRESSED_BYTES_MAX = 128 << 20
/** nor, beyond the first of these, to more than honest gzip can reach. Zstd has no limit itself. */
const [RATIO_FREE_BYTES, RATIO_MAX] = [16 << 20, 1032]

/** Returns to how many bytes a batch may be decompressed. */
export function decompressedBytesMax (compressed: number): number {
  return Math.min(DECOMPRESSED_BYTES_MAX, Math.max(RATIO_FREE_BYTES, RATIO_MAX * compressed))
}

/** Returns decompressed bytes, `max` at the most, or throws. */
export type Decompressor = (data: Uint8Array, max: number) => Uint8Array

/** What reads each compression, by its number; put your own for 1, gzip, and 4, zstd. */
export const decompressors = new Map<number, Decompressor>([[2, snappy], [3, lz4]])

/** A class that decompresses piece by piece, such as `Decompress` of the package fzstd. */
export type Pieces = new (take: (piece: Uint8Array) => void) => {
  push (data: Uint8Array, last: boolean): void
}

/** Returns what decompresses with such a class, and stops it at the limit. */
export function byPieces (Stream: Pieces): Decompressor {
  return (data, max) => {
    const out = new Output(max)
    new Stream(piece => out.literal(piece, 0, piece.length, piece.length)).push(data, true)
    return out.whole()
  }
}

const FIRST_BYTES = 4096

class Output {
  data = new Uint8Array(FIRST_BYTES)
  at = 0
  private readonly max: number

  constructor (max: number) {
    this.max = max
  }

  private room (size: number): void {
    const end = this.at + size
    if (end > this.max) throw new CodecError('decompression_bomb', `more than ${this.max} bytes`)
    if (end <= this.data.length) return
    const grown = new Uint8Array(Math.min(this.max, Math.max(end, 2 * this.data.length)))
    grown.set(this.data.subarray(0, this.at))
    this.data = grown
  }

  literal (from: Uint8Array, at: number, size: number, end: number): void {
    if (at + size > end) wrong('a literal')
    this.room(size)
    this.data.set(from.subarray(at, at + size), this.at)
    this.at += size
  }

  /** Repeat what was written `distance` bytes ago, not before `first`. */
  copy (distance: number, size: number, first: number): void {
    if (distance < 1 || this.at - distance < first) wrong('a distance')
    this.room(size)
    const { data } = this
    for (let left = size; left > 0; left--) data[this.at] = data[this.at++ - distance]!
  }

  whole (): Uint8Array {
    return this.data.subarray(0, this.at)
  }
}

function wrong (what: string): never {
  throw new CodecError('unknown_compression', `${what} leads beyond the data`)
}

// -------------------------------------------------------------------------------------- snappy

const XERIAL = [0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0] // Before two int32 of a version.
const XERIAL_BYTES = 16

/** Read xerial's framing, in which Kafka writes snappy, or one raw block. */
function snappy (data: Uint8Array, max: number): Uint8Array {
  const out = new Output(max)
  if (!XERIAL.every((byte, at) => data[at] === byte)) {
    snappyBlock(data, 0, data.length, out)
    return out.whole()
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  if (data.length < XERIAL_BYTES) throw new CodecError('truncated', 'a frame without its head')
  for (let at = XERIAL_BYTES; at < data.length;) {
    if (at + 4 > data.length) throw new CodecError('truncated', 'a cut length', '', at)
    const size = view.getInt32(at)
    if (size < 0) throw new CodecError('negative_length', `a chunk of ${size} bytes`, '', at)
    if (size > data.length - at - 4) {
      throw new CodecError('truncated', `a chunk of ${size} bytes`, '', at)
    }
    snappyBlock(data, at + 4, at + 4 + size, out)
    at += 4 + size
  }
  return out.whole()
}

function snappyBlock (data: Uint8Array, at: number, end: number, out: Output): void {
  const little = (size: number): number => {
    if (at + size > end) wrong('a number')
    let value = 0
    for (let index = 0; index < size; index++) value += data[at++]! * 2 ** (8 * index)
    return value
  }
  let size = 0
  for (let scale = 1, byte = 128; byte > 127; scale *= 128) {
    if (scale > 2 ** 28) wrong('a size')
    if (at >= end) throw new CodecError('truncated', 'a block without its size')
    byte = little(1)
    size += (byte & 127) * scale
  }
  const first = out.at
  while (at < end) {
    const tag = data[at++]!
    if ((tag & 3) === 0) {
      const short = tag >> 2
      const length = (short < 60 ? short : little(short - 59)) + 1
      out.literal(data, at, length, end)
      at += length
    } else if ((tag & 3) === 1) {
      out.copy((tag >> 5) * 256 + little(1), ((tag >> 2) & 7) + 4, first)
    } else {
      out.copy(little((tag & 3) === 2 ? 2 : 4), (tag >> 2) + 1, first)
    }
  }
  if (out.at - first !== size) {
    throw new CodecError('unknown_compression', `a block of ${size} bytes has ${out.at - first}`)
  }
}

// ----------------------------------------------------------------------------------------- lz4

const LZ4_MAGIC = 0x184d2204

/** Read one lz4 frame; its checksums are not looked at, for the CRC of the batch covers them. */
function lz4 (data: Uint8Array, max: number): Uint8Array {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  if (data.length < 7) throw new CodecError('truncated', 'a frame without its head')
  if (view.getUint32(0, true) !== LZ4_MAGIC) {
    throw new CodecError('unknown_compression', 'this is no lz4 frame')
  }
  const flags = data[4]!
  if (flags >> 6 !== 1) throw new CodecError('unknown_compression', 'no known version of lz4')
  const [independent, blockSum, sized, dictionary] = [flags & 32, flags & 16, flags & 8, flags & 1]
  let at = 7 + (sized ? 8 : 0) + (dictionary ? 4 : 0)
  const out = new Output(max)
  for (; ;) {
    if (at + 4 > data.length) throw new CodecError('truncated', 'a frame without an end')
    const word = view.getUint32(at, true)
    at += 4
    if (word === 0) return out.whole()
    const end = at + (word & 0x7fffffff)
    if (end > data.length) throw new CodecError('truncated', 'a block that is cut')
    if (word >>> 31) out.literal(data, at, end - at, end)
    else lz4Block(data, at, end, out, independent ? out.at : 0)
    at = end + (blockSum ? 4 : 0)
  }
}

function lz4Block (data: Uint8Array, at: number, end: number, out: Output, first: number): void {
  const longer = (length: number): number => {
    if (length < 15) return length
    for (; ;) {
      if (at >= end) wrong('a length')
      const byte = data[at++]!
      length += byte
      if (byte < 255) return length
    }
  }
  while (at < end) {
    const token = data[at++]!
    const literal = longer(token >> 4)
    out.literal(data, at, literal, end)
    at += literal
    if (at === end) return
    if (at + 2 > end) wrong('a distance')
    const distance = data[at]! + 256 * data[at + 1]!
    at += 2
    out.copy(distance, longer(token & 15) + 4, first)
  }
}
