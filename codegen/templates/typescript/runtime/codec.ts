// What generated modules import.

export { noBytes } from './bytes.js'
export { CodecError, refuse } from './errors.js'
export type { Layout, StructTable, UnknownTaggedField } from './layout.js'
export { Message } from './message.js'
export { list, type Reader } from './reader.js'
export {
  acquire, array, bool, float64, int8, int16, int32, int64, struct, uint16, uint32,
  type TaggedField, type Writer
} from './writer.js'
