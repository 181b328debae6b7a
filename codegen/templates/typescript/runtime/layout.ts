// The literal form of a plan: what generated modules hold, and what the interpreter runs.

/** The encoding of a field. */
export type Wire =
  | 'bool' | 'int8' | 'int16' | 'uint16' | 'int32' | 'uint32' | 'int64' | 'float64' | 'uuid'
  | 'string' | 'compact_string' | 'bytes' | 'compact_bytes' | 'records' | 'compact_records'
  | 'array' | 'compact_array' | 'struct'

/** Of an array: a wire type or the number of a layout. Of a struct: the number of a layout. */
export type Element = Wire | number | null

/** A default; an empty array is `[]`, a struct of defaults has the number of its struct. */
export type Default =
  boolean | number | bigint | string | Uint8Array | null | readonly [] | { readonly struct: number }

/** A field on the wire: name, encoding, whether it may be null, element. */
export type FieldLayout = readonly [string, Wire, boolean, Element]
/** A tagged field: tag, name, encoding, whether it may be null, element, default. */
export type TaggedLayout = readonly [number, string, Wire, boolean, Element, Default]
/** A field of other versions: name, whether its value may be dropped, default. */
export type AbsentLayout = readonly [string, boolean, Default]

/** A struct at a version; layouts refer to each other by number. */
export interface Layout {
  /** The number of the struct in `structs`. */
  readonly struct: number
  /** Whether a section of tagged fields follows. */
  readonly flexible: boolean
  readonly fields: readonly FieldLayout[]
  readonly tagged: readonly TaggedLayout[]
  readonly absent: readonly AbsentLayout[]
  /** Tags that only other versions define. */
  readonly laterTags: readonly number[]
}

/** The fields of a struct over all versions: name, default, number of its struct or -1. */
export type StructField = readonly [string, Default, number]
export interface StructTable {
  readonly name: string
  readonly fields: readonly StructField[]
}

/** A tagged field that this release does not know, kept as it came. */
export interface UnknownTaggedField {
  tag: number
  data: Uint8Array
}

/** A struct of any message, as the interpreter sees it. */
export type Fields = Record<string, any>

export const STRING_BYTES_MAX = 0x7fff // Kafka's limit for both forms: the old prefix is an int16.
export const INT_MAX = 0x7fffffff // Lengths, counts and tags are Java ints.

/** Return a new value that a default describes. */
export function defaultOf (structs: readonly StructTable[], value: Default): unknown {
  if (value === null || typeof value !== 'object' || value instanceof Uint8Array) return value
  return isArray(value) ? [] : structOfDefaults(structs, value.struct)
}

/** Return a struct whose fields all hold their defaults. */
export function structOfDefaults (structs: readonly StructTable[], number: number): Fields {
  const out: Fields = {}
  for (const [name, value] of structs[number]!.fields) out[name] = defaultOf(structs, value)
  return out
}

/** Whether a value is the default of its field; a field that is not there holds its default. */
export function isDefault (
  structs: readonly StructTable[], value: unknown, expected: Default
): boolean {
  if (value === undefined) return true
  if (expected === null || typeof expected !== 'object') {
    return value === expected
  }
  if (isArray(expected)) return isArray(value) && value.length === 0
  if (expected instanceof Uint8Array) {
    return value instanceof Uint8Array && value.length === 0 && expected.length === 0
  }
  if (value === null || typeof value !== 'object' || isArray(value)) return false
  const fields = value as Fields
  const table = structs[expected.struct]!.fields
  return table.every(([name, field]) => isDefault(structs, own(fields, name), field)) &&
    !(fields.unknownTaggedFields?.length > 0)
}

/** Return a field of a struct itself, never one of its prototype. */
export function own (fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

/** `Array.isArray` that leaves a read-only array read-only. */
export function isArray (value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}
