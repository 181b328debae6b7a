// What a program does with a message: node --test, with CODECS the directory of the compiled codecs.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const load = file => import(pathToFileURL(join(process.env.CODECS, file)))
const { CodecError, fromHex, toHex, ZERO_UUID } = await load('runtime/index.js')
const { VoteRequest } = await load('kafka/vote_request.js')
const { FetchResponse } = await load('kafka/fetch_response.js')
const { FetchRequest } = await load('kafka/fetch_request.js')
const { RequestHeader } = await load('kafka/request_header.js')
const { CreateTopicsRequest } = await load('kafka/create_topics_request.js')
const { ApiVersionsResponse } = await load('kafka/api_versions_response.js')
const { RequestHeader: Of595 } = await load('kip_595/request_header.js')

const refuses = (errorClass, path, offset) => error =>
  error instanceof CodecError && error.errorClass === errorClass && error.path === path &&
  error.offset === offset

test('a message that is made has the defaults of its schema, at every depth', () => {
  assert.deepEqual(VoteRequest.create({ topics: [{ topicName: 'a', partitions: [{}] }] }), {
    clusterId: null,
    voterId: -1,
    topics: [{
      topicName: 'a',
      partitions: [{
        partitionIndex: 0,
        replicaEpoch: 0,
        replicaId: 0,
        replicaDirectoryId: ZERO_UUID,
        voterDirectoryId: ZERO_UUID,
        lastOffsetEpoch: 0,
        lastOffset: 0n,
        preVote: false
      }]
    }]
  })
  assert.deepEqual(FetchResponse.create({ responses: [{ partitions: [{}] }] })
    .responses[0].partitions[0].currentLeader, { leaderId: -1, leaderEpoch: -1 })
})

test('what is made does not share arrays with what it was made of', () => {
  const ids = [1, 2]
  const made = CreateTopicsRequest.create({
    topics: [{ assignments: [{ brokerIds: ids }] }]
  })
  ids.push(3)
  assert.deepEqual(made.topics[0].assignments[0].brokerIds, [1, 2])
})

test('a name that no version has is refused', () => {
  assert.throws(() => VoteRequest.create({ topics: [{ topicname: 'a' }] }),
    refuses('field_not_in_version', 'topics[0].topicname', undefined))
  assert.throws(() => VoteRequest.create(JSON.parse('{"__proto__": 1}')),
    refuses('field_not_in_version', '__proto__', undefined))
})

test('fields of other versions and tagged ones may be left out, others not', () => {
  const value = { clusterId: null, topics: [] }
  assert.equal(toHex(VoteRequest.encode(value, 0)), '000100')
  assert.throws(() => VoteRequest.encode(value, 1), refuses('missing_field', 'voterId', undefined))
  const answer = { errorCode: 0, apiKeys: [], throttleTimeMs: 0 }
  assert.equal(toHex(ApiVersionsResponse.encode(answer, 3)), '0000010000000000')
})

test('nothing counts that is only in a prototype', () => {
  const inherited = Object.create({ voterId: 'one' })
  Object.assign(inherited, { clusterId: null, topics: [] })
  assert.throws(() => VoteRequest.encode(inherited, 1),
    refuses('missing_field', 'voterId', undefined))
})

test('values of a wrong type or size are refused', () => {
  const header = { requestApiKey: 1, requestApiVersion: 1, correlationId: 1, clientId: 'me' }
  const refused = [
    [{ correlationId: '1' }, 'wrong_type', 'correlationId'],
    [{ correlationId: 1n }, 'wrong_type', 'correlationId'],
    [{ correlationId: 1.5 }, 'wrong_type', 'correlationId'],
    [{ correlationId: NaN }, 'wrong_type', 'correlationId'],
    [{ correlationId: null }, 'null_for_non_nullable', 'correlationId'],
    [{ correlationId: 2 ** 31 }, 'integer_out_of_range', 'correlationId'],
    [{ requestApiKey: -32769 }, 'integer_out_of_range', 'requestApiKey'],
    [{ clientId: 5 }, 'wrong_type', 'clientId'],
    [{ clientId: [] }, 'wrong_type', 'clientId'],
    [{ clientId: { length: 0 } }, 'wrong_type', 'clientId'],
    [{ clientId: 'x'.repeat(32768) }, 'length_too_long', 'clientId'],
    [{ clientId: 'é'.repeat(16384) }, 'length_too_long', 'clientId'],
    [{ clientId: '\ud800' }, 'invalid_utf8', 'clientId'],
    [{ clientId: 'x\udc00' }, 'invalid_utf8', 'clientId'],
    [{ unknownTaggedFields: {} }, 'wrong_type', '_unknownTaggedFields'],
    [{ unknownTaggedFields: [{ tag: 1 }] }, 'wrong_type', '_unknownTaggedFields']
  ]
  for (const [change, errorClass, path] of refused) {
    assert.throws(() => RequestHeader.encode({ ...header, ...change }, 2),
      refuses(errorClass, path, undefined), JSON.stringify(change, (_, value) => String(value)))
  }
  for (const value of [null, undefined, 5, 'text', [], () => 1]) {
    assert.throws(() => RequestHeader.encode(value, 2), CodecError)
  }
})

test('a uuid has one text', () => {
  const made = uuid => FetchRequest.create({ replicaState: {}, topics: [{ topicId: uuid }] })
  for (const uuid of ['', 'A'.repeat(21), 'A'.repeat(23), 'A'.repeat(21) + 'B', 'A'.repeat(21) + '=',
    'A'.repeat(21) + '+', 'A'.repeat(21) + '\u0141']) {
    assert.throws(() => FetchRequest.encode(made(uuid), 17),
      refuses('wrong_type', 'topics[0].topicId', undefined), uuid)
  }
  for (const uuid of ['AAAAAAAAAAAAAAAAAAAAAQ', '_____________________w', '4L6g3nShT-eMCtK--X86sw']) {
    const data = FetchRequest.encode(made(uuid), 17)
    assert.equal(FetchRequest.decode(data, 17).topics[0].topicId, uuid)
  }
})

test('the bytes do not depend on where the buffer grows', () => {
  // Each length puts another field at the end of the first 1,024 bytes.
  const long = 'é'.repeat(100)
  for (let length = 900; length < 1100; length++) {
    const value = Of595.create({ correlationId: 7, clientId: 'x'.repeat(length) })
    assert.deepEqual(Of595.decode(Of595.encode(value, 2), 2), value)
    const vote = VoteRequest.create({
      clusterId: 'x'.repeat(length),
      topics: [{ topicName: long, partitions: [{ lastOffset: 5n, voterDirectoryId: ZERO_UUID }] }]
    })
    assert.deepEqual(VoteRequest.decode(VoteRequest.encode(vote, 2), 2), vote)
    const topics = CreateTopicsRequest.create({
      topics: [{
        name: 'x'.repeat(length),
        assignments: [{ brokerIds: [1, 2, 3] }],
        configs: [{ name: 'a', value: null }, { name: long, value: long }]
      }]
    })
    for (const version of [4, 5]) {
      const data = CreateTopicsRequest.encode(topics, version)
      assert.deepEqual(CreateTopicsRequest.decode(data, version), topics)
    }
  }
})

test('a message may be encoded while another one is', () => {
  const inner = RequestHeader.create({ clientId: 'inner' })
  const outer = RequestHeader.create({ clientId: 'outer' })
  const plain = toHex(RequestHeader.encode(outer, 2))
  Object.defineProperty(outer, 'clientId', {
    get: () => RequestHeader.encode(inner, 2) && 'outer', enumerable: true
  })
  assert.equal(toHex(RequestHeader.encode(outer, 2)), plain)
})

const fetched = records => FetchResponse.create({
  responses: [{ topic: 'a', partitions: [{ records }, { partitionIndex: 1, records: new Uint8Array(3) }] }]
})

test('records are views of the input, and not copied into the parts of a message', () => {
  const records = new Uint8Array(10000).fill(7)
  const parts = FetchResponse.encodeParts(fetched(records), 12)
  assert.equal(parts.length, 3)
  assert.equal(parts[1], records)
  const data = FetchResponse.encode(fetched(records), 12)
  assert.deepEqual(Buffer.concat(parts), Buffer.from(data))
  for (const input of [data, Buffer.from(data), Buffer.concat([Buffer.alloc(5), data]).subarray(5)]) {
    const value = FetchResponse.decode(input, 12)
    const read = value.responses[0].partitions[0].records
    assert.equal(read.buffer, input.buffer)
    assert.equal(read.constructor, Uint8Array)
    assert.deepEqual(value, fetched(records))
  }
})

test('large data is written within tagged fields, too', () => {
  const data = new Uint8Array(5000).fill(9)
  const header = RequestHeader.create({ unknownTaggedFields: [{ tag: 1, data }, { tag: 9, data }] })
  assert.deepEqual(RequestHeader.decode(RequestHeader.encode(header, 2), 2), header)
})

test('an error names the byte from the start of the input', () => {
  const data = Buffer.from('ffff00ff', 'hex')
  assert.throws(() => RequestHeader.decodeFrom(data, 2, 1), refuses('truncated', 'requestApiVersion', 4))
  assert.throws(() => RequestHeader.decodeFrom(data, 5, 1), refuses('truncated', '', 5))
  assert.throws(() => RequestHeader.decodeFrom(data, NaN, 1), CodecError)
  for (const version of [-1, 3, 1.5, NaN, '1', 'constructor', undefined]) {
    assert.throws(() => RequestHeader.decode(data, version), refuses('unsupported_version', '', undefined))
    assert.throws(() => RequestHeader.encode({}, version), refuses('unsupported_version', '', undefined))
  }
})

test('a count that the input cannot hold is refused before anything is made', () => {
  const before = process.memoryUsage().rss
  for (const hex of ['7fffffff', '00000064']) {
    assert.throws(() => CreateTopicsRequest.decode(fromHex(hex), 4),
      refuses('length_exceeds_input', 'topics', 0))
  }
  assert.ok(process.memoryUsage().rss - before < 100e6)
})

test('each byte is explained, up to the error', () => {
  const data = fromHex('00010000000100' + 'ff')
  const { spans, error } = VoteRequest.explain(data, 2)
  assert.equal(error.errorClass, 'trailing')
  assert.equal(error.offset, 7)
  assert.deepEqual(spans.map(({ path, wire, start, end, value }) => [path, wire, start, end, value]), [
    ['clusterId', 'compact_string', 0, 1, null],
    ['voterId', 'int32', 1, 5, 0x01000000],
    ['topics', 'count', 5, 6, 0],
    ['', 'tag count', 6, 7, 0]
  ])
})

test('versions of messages and of headers', () => {
  assert.deepEqual([VoteRequest.firstVersion, VoteRequest.lastVersion], [0, 2])
  assert.deepEqual([VoteRequest.type, VoteRequest.apiKey], ['request', 52])
  assert.equal(VoteRequest.headerVersion(2), 2)
  assert.equal(FetchRequest.headerVersion(4), 1)
  assert.equal(ApiVersionsResponse.headerVersion(3), 0)
  assert.equal(FetchRequest.isFlexible(11), false)
  assert.equal(FetchRequest.isFlexible(12), true)
  assert.throws(() => RequestHeader.headerVersion(1), refuses('unsupported_version', '', undefined))
})
