// What can be wrong with bytes or values: one exception, a closed set of classes.

/** Why a value or a run of bytes was rejected. The strings are those of the harness protocol. */
export type ErrorClass =
  // Decoding.
  | 'truncated'
  | 'trailing'
  | 'negative_length'
  | 'length_exceeds_input'
  | 'varint_overflow'
  | 'varint_truncated'
  | 'non_minimal_varint'
  | 'tag_out_of_order'
  | 'tag_duplicate'
  | 'tag_below_version'
  | 'tagged_size_mismatch'
  | 'invalid_utf8'
  | 'invalid_boolean'
  | 'invalid_struct_marker'
  // Record batches.
  | 'crc_mismatch'
  | 'bad_magic'
  | 'batch_length_mismatch'
  | 'record_count_mismatch'
  | 'offset_delta_disorder'
  | 'unknown_compression'
  | 'decompression_bomb'
  // Encoding.
  | 'wrong_type'
  | 'integer_out_of_range'
  | 'field_not_in_version'
  | 'missing_field'
  | 'unknown_message'
  // Both.
  | 'length_too_long'
  | 'null_for_non_nullable'
  | 'unsupported_version'

/** A value that cannot be encoded, or bytes that cannot be decoded. */
export class CodecError extends Error {
  readonly errorClass: ErrorClass
  readonly detail: string
  /** The field, such as `topics[0].partitions[2].leaderEpoch`; empty for the message itself. */
  readonly path: string
  /** The byte at which the rejected primitive starts; undefined when encoding. */
  readonly offset: number | undefined

  constructor (errorClass: ErrorClass, detail: string, path = '', offset?: number) {
    const where = (path || 'message') + (offset === undefined ? '' : ` at byte ${offset}`)
    super(`${where}: ${detail} [${errorClass}]`)
    this.name = 'CodecError'
    this.errorClass = errorClass
    this.detail = detail
    this.path = path
    this.offset = offset
  }
}

const REFUSED = Symbol('refused')

/** Give up, in straight-line code: the interpreter of the plan then says what is wrong. */
export function refuse (): never {
  throw REFUSED
}
