// What every generated module exports: encode, decode, JSON, defaults, and where each field stands.

import { plain } from './bytes.js'
import { Decoder, type Span } from './decoder.js'
import { Encoder } from './encoder.js'
import { CodecError } from './errors.js'
import { formatJson, parseJson, type Json } from './json.js'
import {
  isArray, structOfDefaults, type Fields, type Layout, type StructTable
} from './layout.js'
import { Reader } from './reader.js'
import { JsonReader, structToJson } from './values.js'
import { acquire, release, type Writer } from './writer.js'

/** The fields of a message or struct, all of which may be left out, at every depth. */
export type Init<T> = T extends Uint8Array ? T
  : T extends readonly (infer E)[] ? readonly Init<E>[]
    : T extends object ? { readonly [K in keyof T]?: Init<T[K]> } : T

/** A message and the offset of the byte after it. */
export interface Decoded<T> {
  value: T
  end: number
}

/** What a decoder read, byte by byte, up to the error if there is one. */
export interface Explained<T> {
  spans: Span[]
  value?: T
  error?: CodecError
}

/** What a generated module says of its message. Versions are listed from the first one on. */
export interface Description<T> {
  readonly name: string
  readonly type: string
  readonly apiKey: number | null
  readonly firstVersion: number
  /** The first flexible version; after the last version if there is none. */
  readonly firstFlexible: number
  readonly headerVersions: readonly (number | null)[]
  readonly structs: readonly StructTable[]
  readonly layouts: readonly Layout[]
  /** The layout of each version, and the functions that run it. */
  readonly plans: readonly number[]
  readonly encoders: readonly ((value: T, to: Writer) => void)[]
  readonly decoders: readonly ((from: Reader) => T)[]
}

export class Message<T extends object> {
  readonly name: string
  /** `request`, `response`, `header`, `metadata`, `data`, `coordinator-key` … */
  readonly type: string
  /** Of requests and responses; of records, their type; null for others. */
  readonly apiKey: number | null
  readonly firstVersion: number
  /** Less than the first where no version is valid. */
  readonly lastVersion: number
  private readonly of: Description<T>

  constructor (of: Description<T>) {
    this.name = of.name
    this.type = of.type
    this.apiKey = of.apiKey
    this.firstVersion = of.firstVersion
    this.lastVersion = of.firstVersion + of.plans.length - 1
    this.of = of
  }

  /** Return where the lists of versions have this one: nowhere, if it is no number. */
  private at (version: number): number {
    return typeof version === 'number' ? version - this.firstVersion : -1
  }

  protected layout (version: number): number {
    const layout = this.of.plans[this.at(version)]
    if (layout === undefined) {
      const range = `${this.firstVersion} to ${this.lastVersion}`
      const known = this.of.plans.length > 0 ? range : 'none'
      const detail = `${this.name} has versions ${known}, not ${version}`
      throw new CodecError('unsupported_version', detail)
    }
    return layout
  }

  /** Whether a version is flexible (KIP-482). */
  isFlexible (version: number): boolean {
    this.layout(version)
    return version >= this.of.firstFlexible
  }

  /** Return the version of the header before this message. */
  headerVersion (version: number): number {
    this.layout(version)
    const header = this.of.headerVersions[this.at(version)]!
    if (header !== null) return header
    throw new CodecError('unsupported_version', `${this.name} is a ${this.type}: it has no header`)
  }

  /** Return a message with the default in each field that is left out. */
  create (init: Init<T> = {} as Init<T>): T {
    return created(this.of.structs, 0, init, '') as T
  }

  /** Return the bytes of a message; a CodecError names the field that is wrong. */
  encode (value: T, version: number): Uint8Array {
    return this.written(value, version, false) as Uint8Array
  }

  /**
   * Return the same bytes in pieces, in which bytes and records of 4 KiB or more are those of the
   * message itself and not copies.
   */
  encodeParts (value: T, version: number): Uint8Array[] {
    return this.written(value, version, true) as Uint8Array[]
  }

  protected written (value: T, version: number, parts: boolean): Uint8Array | Uint8Array[] {
    let to = acquire()
    try {
      this.of.encoders[this.at(version)]!(value, to)
    } catch {
      to = acquire()
      new Encoder(this.of.structs, this.of.layouts).struct(to, this.layout(version), value)
    }
    const out = parts ? to.pieces() : to.whole()
    release(to)
    return out
  }

  /**
   * Read a whole message; a CodecError names the byte and the field that is wrong. Fields of type
   * `records` are views of `data`.
   */
  decode (data: Uint8Array, version: number): T {
    const { value, end } = this.decodeFrom(data, 0, version)
    if (end !== data.length) {
      throw new CodecError('trailing', `${data.length - end} bytes follow the message`, '', end)
    }
    return value
  }

  /** Read a message that starts at `offset`, and return it with the offset after it. */
  decodeFrom (data: Uint8Array, offset: number, version: number): Decoded<T> {
    const bytes = plain(data)
    if (!(offset >= 0 && offset <= bytes.length)) {
      const detail = `the input has ${bytes.length} bytes`
      throw new CodecError('truncated', detail, '', Math.max(offset, 0))
    }
    try {
      const from = new Reader(bytes, offset)
      const value = this.of.decoders[this.at(version)]!(from)
      if (from.at <= bytes.length) return { value, end: from.at }
    } catch {
      // The interpreter says what was wrong.
    }
    const from = new Decoder(bytes, offset, this.of.structs, this.of.layouts)
    const value = from.struct(this.layout(version)) as T
    return { value, end: from.at }
  }

  /** Read a message field by field, and tell which bytes each field has, also before an error. */
  explain (data: Uint8Array, version: number, offset = 0): Explained<T> {
    const bytes = plain(data)
    const spans: Span[] = []
    try {
      const from = new Decoder(bytes, offset, this.of.structs, this.of.layouts, spans)
      const value = from.struct(this.layout(version)) as T
      if (from.at === bytes.length) return { spans, value }
      const detail = `${bytes.length - from.at} bytes follow the message`
      return { spans, value, error: new CodecError('trailing', detail, '', from.at) }
    } catch (error) {
      if (error instanceof CodecError) return { spans, error }
      throw error
    }
  }

  /** Throw what `encode` would: the rules of values stand there alone. */
  protected check (value: T, version: number): void {
    this.encode(value, version)
  }

  /** Return a message as JSON, in the shape of Kafka's converters. */
  toJson (value: T, version: number): Json {
    this.check(value, version)
    return structToJson(this.of.structs, this.of.layouts, this.layout(version), value)
  }

  /** Return a message as the text of its JSON; `indent` puts each member on a line of its own. */
  toJsonText (value: T, version: number, indent = ''): string {
    return formatJson(this.toJson(value, version), indent)
  }

  /** Read the JSON that `toJson` gives; a CodecError names the field that is wrong. */
  fromJson (json: Json, version: number): T {
    const layout = this.layout(version)
    return new JsonReader(this.of.structs, this.of.layouts).struct(layout, json) as T
  }

  /** Read the text of a message's JSON; a SyntaxError says where it is not JSON. */
  fromJsonText (text: string, version: number): T {
    return this.fromJson(parseJson(text), version)
  }
}

function created (
  structs: readonly StructTable[], number: number, init: unknown, path: string
): Fields {
  const given = init as Fields
  const out = structOfDefaults(structs, number)
  const inner = new Map(structs[number]!.fields.map(([name, , struct]) => [name, struct]))
  for (const name of Object.keys(given)) {
    const struct = inner.get(name)
    const value: unknown = given[name]
    if (value === undefined) continue
    const at = path ? `${path}.${name}` : name
    if (name === 'unknownTaggedFields') {
      out[name] = value
    } else if (struct === undefined) {
      throw new CodecError('field_not_in_version', 'no version has such a field', at)
    } else if (struct < 0 || value === null) {
      out[name] = isArray(value) ? [...value] : value
    } else {
      out[name] = isArray(value)
        ? value.map((item, index) => created(structs, struct, item, `${at}[${index}]`))
        : created(structs, struct, value, at)
    }
  }
  return out
}

