// What a program needs beside the messages.

export { toHex, fromHex, toBase64, fromBase64, ZERO_UUID } from './bytes.js'
export type { Span } from './decoder.js'
export { CodecError, type ErrorClass } from './errors.js'
export type { Asked, Catalogue, Entry, Frame } from './frame.js'
export { formatJson, parseJson, type Json, type JsonObject } from './json.js'
export type { UnknownTaggedField } from './layout.js'
export { Message, type Decoded, type Explained, type Init } from './message.js'
