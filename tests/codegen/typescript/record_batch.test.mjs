// Record batches beyond what the vectors say: node --test, with CODECS and VECTORS.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const load = file => import(pathToFileURL(join(process.env.CODECS, file)))
const { fromHex, toHex } = await load('runtime/index.js')
const { RecordBatch, decompressors } = await load('runtime/record_batch.js')
const { tests } = JSON.parse(readFileSync(join(process.env.VECTORS, 'kafka', 'RecordBatch.json')))
const of = comment => fromHex(tests.find(one => one.comment === comment && one.result === 'valid').hex)

test('each byte of a batch belongs to one field', () => {
  for (const { hex } of tests.filter(one => one.op === 'roundtrip')) {
    const data = fromHex(hex)
    const { spans, error } = RecordBatch.explain(data, 2)
    assert.equal(error, undefined)
    let at = 0
    for (const { start, end } of spans) {
      assert.equal(start, at)
      at = end
    }
    assert.equal(at, data.length)
  }
})

test('what was compressed is explained by its own bytes', () => {
  const data = of('snappy: headers')
  const { spans } = RecordBatch.explain(data, 2)
  const block = spans.findIndex(({ wire }) => wire === 'snappy')
  assert.deepEqual([spans[block].start, spans[block].end], [61, data.length])
  assert.ok(spans.slice(block + 1).every(({ inflated }) => inflated))
  assert.equal(spans[block + 1].start, 0)
})

test('a batch that was compressed is shown as JSON and not written', () => {
  const batch = RecordBatch.decode(of('lz4: one record'), 2)
  assert.equal(RecordBatch.toJson(batch, 2).attributes, 3n)
  assert.throws(() => RecordBatch.encode(batch, 2), { errorClass: 'unknown_compression' })
})

test('gzip needs a function of the platform', () => {
  assert.equal(decompressors.has(1), false)
  assert.throws(() => RecordBatch.decode(of('gzip: one record'), 2), /put it into decompressors/)
})

test('a batch in the middle of a log is read, its errors are of the log', () => {
  const batch = of('2 records')
  const log = new Uint8Array(2 * batch.length)
  log.set(batch)
  log.set(batch, batch.length)
  assert.equal(RecordBatch.decodeFrom(log, batch.length, 2).end, log.length)
  log[batch.length + 17] ^= 1
  assert.throws(() => RecordBatch.decodeFrom(log, batch.length, 2), {
    errorClass: 'crc_mismatch', offset: batch.length + 17
  })
})

test('a block of lz4 or snappy that says more than it has is refused', () => {
  for (const comment of ['lz4: many that are alike', 'snappy: many that are alike']) {
    const data = of(comment)
    const inflate = decompressors.get(data[22] & 7)
    const block = data.subarray(61)
    const whole = inflate(block, 1 << 20)
    assert.throws(() => inflate(block, whole.length - 1), { errorClass: 'decompression_bomb' })
    for (let at = 0; at < block.length; at++) {
      // Without a single chunk, snappy's framing has no bytes, and is whole.
      if (at !== 16) {
        assert.throws(() => inflate(block.subarray(0, at), 1 << 20), undefined, `${comment} ${at}`)
      }
      const spoilt = block.slice()
      spoilt[at] ^= 255
      try {
        assert.ok(inflate(spoilt, 1 << 20).length <= 1 << 20)
      } catch (error) {
        assert.equal(error.name, 'CodecError', `${comment} ${at} ${toHex(spoilt)}`)
      }
    }
  }
})
