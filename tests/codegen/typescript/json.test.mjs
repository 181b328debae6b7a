// JSON with exact integers, and messages in it: node --test, with CODECS the compiled codecs.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const load = file => import(pathToFileURL(join(process.env.CODECS, file)))
const { CodecError, formatJson, fromBase64, fromHex, parseJson, toBase64, toHex } =
  await load('runtime/index.js')
const { VoteRequest } = await load('kafka/vote_request.js')
const { AlterClientQuotasRequest } = await load('kafka/alter_client_quotas_request.js')

test('integers are exact, other numbers keep their fraction', () => {
  const text = '{"a":9007199254740993,"b":-9223372036854775808,"c":1.0,"d":-0.0,"e":1e+300,"f":[]}'
  const value = parseJson(text)
  assert.deepEqual({ ...value }, {
    a: 9007199254740993n, b: -9223372036854775808n, c: 1, d: -0, e: 1e300, f: []
  })
  assert.equal(formatJson(value), text)
})

test('whatever JavaScript takes for JSON is taken, and nothing else', () => {
  const good = [
    '{}', '[]', ' [ 1 , 2 ] ', '"\\u00e9\\n\\"\\\\"', '"é"', 'null', 'true', 'false', '0', '-0',
    '{"a":{"b":[{"c":null}]}}', '[1.5e3]', '""', '{"":0}', '"\\ud800"', '\t\r\n1'
  ]
  const exact = (_, value) => typeof value === 'bigint' ? Number(value) : value
  for (const text of good) {
    assert.equal(JSON.stringify(parseJson(text), exact), JSON.stringify(JSON.parse(text)), text)
  }
  const bad = [
    '', ' ', '{', '}', '[1', '[1,]', '{"a"}', '{"a":}', '{"a":1,}', '{a:1}', "'a'", '"a', '"\n"',
    '01', '+1', '.5', '1.', '1e', '--1', 'nul', 'truefalse', '1 2', '[1 2]', '{"a":1 "b":2}',
    '"\\x"', '"\\u12"', 'NaN', '\u00a01', '[', '"\\'
  ]
  for (const text of bad) {
    assert.throws(() => JSON.parse(text), SyntaxError)
    assert.throws(() => parseJson(text), SyntaxError, text)
  }
})

test('deep JSON is refused before the stack ends', () => {
  assert.throws(() => parseJson('['.repeat(100000)), SyntaxError)
})

test('no name of JSON is more than a name', () => {
  const value = parseJson('{"__proto__":{"polluted":true},"constructor":1,"toString":2}')
  assert.deepEqual(Object.keys(value), ['__proto__', 'constructor', 'toString'])
  assert.equal({}.polluted, undefined)
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    const text = `{"clusterId":null,"voterId":1,"topics":[],"${name}":null}`
    assert.throws(() => VoteRequest.fromJsonText(text, 2), error =>
      error instanceof CodecError && error.path === name)
  }
})

test('a message has one text', () => {
  const vote = VoteRequest.create({ topics: [{ partitions: [{ lastOffset: 9223372036854775807n }] }] })
  const text = VoteRequest.toJsonText(vote, 0)
  assert.equal(text,
    '{"clusterId":null,"topics":[{"topicName":"","partitions":[{"partitionIndex":0,' +
    '"replicaEpoch":0,"replicaId":0,"lastOffsetEpoch":0,"lastOffset":9223372036854775807}]}]}')
  assert.deepEqual(VoteRequest.fromJsonText(text, 0), vote)
  assert.equal(VoteRequest.toJsonText({ clusterId: null, topics: [] }, 0, '  '),
    '{\n  "clusterId": null,\n  "topics": []\n}')
})

test('floats that JSON cannot say are hexadecimal', () => {
  const quotas = value => AlterClientQuotasRequest.create({ entries: [{ ops: [{ value }] }] })
  for (const value of [NaN, Infinity, -Infinity, -0, 1, 0.1]) {
    const text = AlterClientQuotasRequest.toJsonText(quotas(value), 1)
    const read = AlterClientQuotasRequest.fromJsonText(text, 1)
    assert.ok(Object.is(read.entries[0].ops[0].value, value), text)
  }
})

test('bytes as text, as Node has them', () => {
  for (let length = 0; length < 70; length++) {
    const data = Uint8Array.from({ length }, (_, at) => (at * 37 + length) & 255)
    assert.equal(toBase64(data), Buffer.from(data).toString('base64'))
    assert.deepEqual(fromBase64(toBase64(data)), data)
    assert.equal(toHex(data), Buffer.from(data).toString('hex'))
    assert.deepEqual(fromHex(toHex(data)), data)
  }
  const long = new Uint8Array(20001).fill(200)
  assert.equal(toBase64(long), Buffer.from(long).toString('base64'))
  for (const text of ['A', 'AA', 'AAA', 'AA=A', 'AA-_', 'AAAA=', 'A A=', 'AAA\u0141', '====']) {
    assert.equal(fromBase64(text), undefined, text)
  }
  for (const text of ['0', 'zz', '0x', ' 0']) assert.equal(fromHex(text), undefined, text)
})
