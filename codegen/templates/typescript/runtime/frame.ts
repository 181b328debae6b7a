// A whole frame: the header, then the message that the header is for.

import { plain } from './bytes.js'
import { CodecError } from './errors.js'
import type { Fields } from './layout.js'
import type { Message } from './message.js'

/** What the index of a set says of a message; `load` loads its module. */
export interface Entry {
  readonly type: string
  readonly apiKey: number | null
  readonly firstVersion: number
  readonly lastVersion: number
  readonly load: () => Promise<Message<any>>
}
export type Catalogue = Readonly<Record<string, Entry>>

/** Which request a response answers: it does not say that itself. */
export interface Asked {
  apiKey: number
  apiVersion: number
}

/** A frame, read: its header and its body. */
export interface Frame extends Asked {
  /** Of the body's message, such as `FetchRequest`. */
  name: string
  /** The version of the body; an ApiVersions response may be in another than was asked. */
  version: number
  headerVersion: number
  header: Fields
  /** Where the body starts. */
  bodyOffset: number
  body: Fields
}

const API_VERSIONS_KEY = 18

/** Load a message of a set by its name. */
export async function loadFrom (catalogue: Catalogue, name: string): Promise<Message<any>> {
  const entry = Object.hasOwn(catalogue, name) ? catalogue[name] : undefined
  if (entry === undefined) throw new CodecError('unknown_message', `there is no message ${name}`)
  return await entry.load()
}

/** Return the name of the request or response of an API. */
export function nameOf (
  catalogue: Catalogue, type: 'request' | 'response', apiKey: number
): string {
  for (const [name, entry] of Object.entries(catalogue)) {
    if (entry.type === type && entry.apiKey === apiKey) return name
  }
  throw new CodecError('unknown_message', `no ${type} has the API key ${apiKey}`, '', 0)
}

/**
 * Read a frame, without the four bytes of its size: a request, or the response to `asked`.
 *
 * A CodecError has the byte of the whole frame.
 */
export async function frameOf (
  catalogue: Catalogue, frame: Uint8Array, asked?: Asked
): Promise<Frame> {
  const data = plain(frame)
  const { apiKey, apiVersion } = asked ?? requestOf(data)
  const type = asked === undefined ? 'request' : 'response'
  const name = nameOf(catalogue, type, apiKey)
  const message = await loadFrom(catalogue, name)
  const headerVersion = message.headerVersion(apiVersion)
  const of = await loadFrom(catalogue, type === 'request' ? 'RequestHeader' : 'ResponseHeader')
  const { value: header, end: bodyOffset } = of.decodeFrom(data, 0, headerVersion)
  const read = { name, apiKey, apiVersion, headerVersion, header, bodyOffset }
  try {
    return { ...read, version: apiVersion, body: whole(message, data, bodyOffset, apiVersion) }
  } catch (error) {
    // A node that does not know the version of the question answers in version 0 (KIP-511).
    if (type === 'request' || apiKey !== API_VERSIONS_KEY || apiVersion === 0) throw error
    try {
      return { ...read, version: 0, body: whole(message, data, bodyOffset, 0) }
    } catch {
      throw error
    }
  }
}

function requestOf (data: Uint8Array): Asked {
  if (data.length < 4) {
    throw new CodecError('truncated', 'a request begins with its API key and version', '', 0)
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  return { apiKey: view.getInt16(0), apiVersion: view.getInt16(2) }
}

function whole (message: Message<any>, data: Uint8Array, offset: number, version: number): Fields {
  const { value, end } = message.decodeFrom(data, offset, version)
  if (end === data.length) return value
  throw new CodecError('trailing', `${data.length - end} bytes follow the message`, '', end)
}
