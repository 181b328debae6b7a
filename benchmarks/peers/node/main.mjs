// The Node.js peers, timed on request: node main.mjs LIBRARY MODULES CODECS
//
// LIBRARY is kraftspec (our TypeScript codecs), platformatic or kafkajs. A request is a line of
// tab-separated fields: operation, message, version, file, milliseconds to warm up, milliseconds to
// measure, microseconds a round. The answer is a line of JSON: nanoseconds a call for each round,
// and a CRC-32C of what was handled, which the asker compares. The clients only write requests and
// only read responses: what they read must be what ours reads.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const [library, modules, codecs] = process.argv.slice(2)
const load = (...path) => import(pathToFileURL(join(...path)))
const { load: messageOf } = await load(codecs, 'kafka', 'index.js')
const ROUND_COUNT_MIN = 5

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
  return crc
})

function crc32c (data) {
  let crc = -1
  for (const byte of data) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8)
  return ~crc >>> 0
}

const ours = {
  encode: async (message, version, value) => () => message.encode(value, version),
  decode: async (message, version, data) => () => message.decode(data, version),
  same: assert.deepEqual
}

// ------------------------------------------------- @platformatic/kafka: a module for each version

const PLATFORMATIC = { Metadata: 'metadata/metadata', Fetch: 'consumer/fetch' }
const hex = uuid => Buffer.from(uuid, 'base64url').toString('hex')
const dashed = uuid => hex(uuid).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

async function platformaticModule (message, version) {
  const name = message.name.replace(/Request|Response/, '')
  const root = join(modules, 'node_modules', '@platformatic', 'kafka', 'dist')
  const module = await load(root, 'apis', `${PLATFORMATIC[name]}-v${version}.js`)
  const { Reader } = await load(root, 'protocol', 'reader.js')
  return { ...module, Reader }
}

const platformatic = {
  encode: async (message, version, value) => {
    const { createRequest } = await platformaticModule(message, version)
    if (message.name === 'MetadataRequest') {
      const topics = value.topics.map(({ name }) => name)
      return () => createRequest(topics, value.allowAutoTopicCreation, false).buffer
    }
    const topics = value.topics.map(({ topic, partitions }) => ({ topicId: topic, partitions }))
    const { maxWaitMs, minBytes, maxBytes, isolationLevel, sessionId, sessionEpoch, rackId } = value
    return () => createRequest(maxWaitMs, minBytes, maxBytes, isolationLevel, sessionId,
      sessionEpoch, topics, [], rackId).buffer
  },
  decode: async (message, version, data) => {
    const { api, parseResponse, Reader } = await platformaticModule(message, version)
    return () => parseResponse(0, api.key, version, Reader.from(data))
  },
  same: (read, value) => {
    if (read.brokers !== undefined) {
      assert.deepEqual(read.topics.map(topic => ({ ...topic })), value.topics.map(
        topic => ({ ...topic, topicId: dashed(topic.topicId) })))
      assert.deepEqual(read.brokers, value.brokers)
      return
    }
    assert.deepEqual(read.responses, value.responses.map(({ topic, partitions }) => ({
      topicId: topic,
      partitions: partitions.map(
        ({ records, divergingEpoch, currentLeader, snapshotId, ...rest }) => rest)
    })))
  }
}

// ------------------------------------------------------------------ kafkajs: encode and decode wait

function kafkajsModule (message, version, direction) {
  const name = message.name.replace(/Request|Response/, '').toLowerCase()
  const require = createRequire(join(modules, 'x.cjs'))
  return require(`kafkajs/src/protocol/requests/${name}/v${version}/${direction}`)
}

const kafkajs = {
  encode: async (message, version, value) => {
    const request = kafkajsModule(message, version, 'request')
    if (message.name === 'MetadataRequest') {
      const topics = value.topics.map(({ name }) => name)
      const given = { topics, allowAutoTopicCreation: value.allowAutoTopicCreation }
      return async () => (await request(given).encode()).buffer
    }
    const topics = value.topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map(({ partitionMaxBytes, ...rest }) =>
        ({ ...rest, maxBytes: partitionMaxBytes, fetchOffset: String(rest.fetchOffset) }))
    }))
    const given = { ...value, maxWaitTime: value.maxWaitMs, topics, forgottenTopics: [] }
    return async () => (await request(given).encode()).buffer
  },
  decode: async (message, version, data) => {
    const { decode } = kafkajsModule(message, version, 'response')
    return () => decode(data)
  },
  same: (read, value) => {
    if (read.brokers !== undefined) {
      assert.deepEqual(read.topicMetadata.map(({ topic, partitionMetadata }) =>
        [topic, partitionMetadata.map(({ partitionId, leader, replicas, isr }) =>
          ({ partitionId, leader, replicas, isr }))]),
      value.topics.map(({ name, partitions }) =>
        [name, partitions.map(({ partitionIndex, leaderId, replicaNodes, isrNodes }) =>
          ({ partitionId: partitionIndex, leader: leaderId, replicas: replicaNodes, isr: isrNodes }))]))
      return
    }
    assert.deepEqual(read.responses.map(({ topicName, partitions }) =>
      [topicName, partitions.map(({ partition, highWatermark }) => [partition, highWatermark])]),
    value.responses.map(({ topic, partitions }) =>
      [topic, partitions.map(({ partitionIndex, highWatermark }) =>
        [partitionIndex, String(highWatermark)])]))
  }
}

// ----------------------------------------------------------------------------------- measuring

const LIBRARIES = { kraftspec: ours, platformatic, kafkajs }

async function work (operation, name, version, data) {
  const message = await messageOf(name)
  const value = message.decode(data, version)
  const { encode, decode, same } = LIBRARIES[library]
  if (operation === 'decode-message') {
    const call = await decode(message, version, data)
    same(await call(), value)
    return { call, check: crc32c(data) }
  }
  const call = await encode(message, version, value)
  const made = await call()
  if (Buffer.compare(made, data) !== 0) throw new Error('other bytes than were given')
  return { call, check: crc32c(made) }
}

const now = () => Number(process.hrtime.bigint())
let sink // Keeps what a call makes, so that it is not left out.

// Only what gives a promise is waited for.
async function repeat (call, count, waits) {
  if (waits) for (let at = 0; at < count; at++) sink = await call()
  else for (let at = 0; at < count; at++) sink = call()
}

async function measure (call, warmMs, measureMs, roundUs) {
  const waits = call() instanceof Promise
  let start = now()
  let count = 0
  for (; count === 0 || now() - start < warmMs * 1e6; count++) await repeat(call, 1, waits)
  const calls = Math.max(1, Math.ceil(roundUs * 1e3 / ((now() - start) / count)))
  const rounds = []
  const begin = now()
  while (rounds.length < ROUND_COUNT_MIN || now() - begin < measureMs * 1e6) {
    start = now()
    await repeat(call, calls, waits)
    rounds.push(Math.round((now() - start) / calls * 100) / 100)
  }
  return rounds
}

async function answer (line) {
  const [operation, name, version, file, ...times] = line.split('\t')
  const data = readFileSync(file)
  const { call, check } = await work(operation, name, Number(version), data)
  const rounds = await measure(call, ...times.map(Number))
  return { records: 0, bytes: data.length, check, rounds }
}

function versionOf () {
  if (library === 'kraftspec') return {}
  const name = { platformatic: '@platformatic/kafka', kafkajs: 'kafkajs' }[library]
  const { version } = JSON.parse(readFileSync(join(modules, 'node_modules', name, 'package.json')))
  return { [name]: version }
}

const reply = value => process.stdout.write(`${JSON.stringify(value)}\n`)
reply({ versions: { node: process.versions.node, ...versionOf() } })
for await (const line of createInterface({ input: process.stdin })) {
  reply(await answer(line).catch(error => ({ error: String(error.message).slice(0, 1000) })))
}
