// Whole frames and the index of a set: node --test, with CODECS the compiled codecs.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const load = file => import(pathToFileURL(join(process.env.CODECS, file)))
const { CodecError } = await load('runtime/index.js')
const kafka = await load('kafka/index.js')
const { ErrorCode, ErrorCodeNames } = await load('errors.js')
const { ApiKey, ApiKeyNames } = await load('api_keys.js')

const bytes = hex => Uint8Array.from(Buffer.from(hex.replaceAll(' ', ''), 'hex'))

test('a request says itself what it is', async () => {
  // ApiVersions 3 with header 2, as docs/headers.md has it.
  const frame = bytes('00 12 00 03 00 00 00 01 00 02 6d 65 00  02 61 02 62 00')
  const { header, body, ...read } = await kafka.decodeFrame(frame)
  assert.deepEqual(read, {
    name: 'ApiVersionsRequest', apiKey: 18, apiVersion: 3, version: 3, headerVersion: 2, bodyOffset: 13
  })
  assert.deepEqual(header, {
    requestApiKey: 18, requestApiVersion: 3, correlationId: 1, clientId: 'me'
  })
  assert.deepEqual([body.clientSoftwareName, body.clientSoftwareVersion], ['a', 'b'])
})

test('a response is read with the request that it answers', async () => {
  const asked = { apiKey: 18, apiVersion: 3 }
  const frame = await kafka.decodeFrame(bytes('00 00 00 07  00 00 01 00 00 00 00 00'), asked)
  assert.deepEqual([frame.name, frame.headerVersion, frame.version], ['ApiVersionsResponse', 0, 3])
  assert.deepEqual([frame.header.correlationId, frame.body.apiKeys], [7, []])
})

test('a node that does not know the version answers in version 0', async () => {
  const asked = { apiKey: 18, apiVersion: 3 }
  const frame = await kafka.decodeFrame(
    bytes('00 00 00 07  00 23  00 00 00 01  00 12 00 00 00 02'), asked)
  assert.deepEqual([frame.apiVersion, frame.version, frame.body.errorCode], [3, 0, 35])
  assert.equal(ErrorCodeNames.get(35), 'UNSUPPORTED_VERSION')
})

test('an error has the byte of the frame', async () => {
  const wrong = (hex, asked, errorClass, offset) => assert.rejects(
    kafka.decodeFrame(bytes(hex), asked),
    error => error instanceof CodecError && error.errorClass === errorClass && error.offset === offset)
  await wrong('00 12 00', undefined, 'truncated', 0)
  await wrong('7f ff 00 00 00 00 00 00', undefined, 'unknown_message', 0)
  await wrong('00 12 00 09 00 00 00 01 00 02 6d 65 00', undefined, 'unsupported_version', undefined)
  await wrong('00 12 00 03 00 00 00 01 00 02 6d 65 00  02 61 05', undefined, 'length_exceeds_input', 15)
  await wrong('00 12 00 03 00 00 00 01 ff ff 00  02 61 02 62 00 00', undefined, 'trailing', 16)
  await wrong('00 00 00 07', { apiKey: 18, apiVersion: 3 }, 'truncated', 4)
})

test('the index loads messages by name, and nothing that is no message', async () => {
  const { VoteRequest } = await load('kafka/vote_request.js')
  assert.equal(await kafka.load('VoteRequest'), VoteRequest)
  for (const name of ['NoSuchMessage', 'constructor', '__proto__', 'toString']) {
    await assert.rejects(kafka.load(name), error =>
      error instanceof CodecError && error.errorClass === 'unknown_message')
  }
  for (const [name, entry] of Object.entries(kafka.CATALOGUE)) {
    const message = await entry.load()
    const { type, apiKey, firstVersion, lastVersion } = message
    assert.equal(message.name, name)
    assert.deepEqual({ type, apiKey, firstVersion, lastVersion },
      { type: entry.type, apiKey: entry.apiKey, firstVersion: entry.firstVersion, lastVersion: entry.lastVersion })
  }
})

test('numbers have names, and names numbers', () => {
  assert.equal(ErrorCode.NOT_LEADER_OR_FOLLOWER, 6)
  assert.equal(ApiKey.VOTE, 52)
  assert.equal(ApiKeyNames.get(52), 'VOTE')
  assert.equal(ErrorCodeNames.size, Object.keys(ErrorCode).length)
})
