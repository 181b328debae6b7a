// CRC-32C (Castagnoli), the checksum of record batches.

const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value
})

/** Return the CRC-32C of the bytes from `start` to `end`. */
export function crc32c (data: Uint8Array, start: number, end: number): number {
  let crc = 0xffffffff
  for (let at = start; at < end; at++) crc = TABLE[(crc ^ data[at]!) & 255]! ^ (crc >>> 8)
  return (crc ^ 0xffffffff) >>> 0
}
