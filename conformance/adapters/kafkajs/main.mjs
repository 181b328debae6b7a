// kafkajs behind the harness protocol: node main.mjs PACKAGE SPECS
//
// The client has a module for each API and version, which writes the request from an object and
// reads the response into one. Its package does not export them, but they can be required. They are
// called as the client calls them: through the function that picks the version. It has no other
// direction, so encoding a response and decoding a request are answered "skipped".

import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { serve } from '../node/harness.mjs'
import { readSpecs } from '../node/specs.mjs'
import { Arguments, Refused, Result, Skipped } from '../node/values.mjs'
import { NAMES, WHOLE } from './names.mjs'

const [root, specs] = process.argv.slice(2)
const require = createRequire(join(resolve(root), 'index.js'))
const protocol = name => require(`./src/protocol/${name}`)
const { requests } = protocol('requests')
const apiKeys = protocol('requests/apiKeys')
const Encoder = protocol('encoder')

// The client writes and reads the tagged fields that end the header as a part of the body.
const HEADER_TAGS = new Set(['AlterPartitionReassignments', 'ListPartitionReassignments'])

function modules (messages) {
  const found = new Map()
  for (const [api, { versions, protocol }] of Object.entries(requests)) {
    for (const type of ['request', 'response']) {
      const message = messages.get(`${apiKeys[api]} ${type}`)
      const calls = versions.map(Number).map(version => [version, protocol({ version })])
      const inSpecs = calls.filter(([version]) => message?.has(version))
      if (inSpecs.length) found.set(message.name, { message, api, versions: new Map(inSpecs) })
    }
  }
  return found
}

async function encode ({ message, api, versions }, version, value) {
  if (api === 'Produce') throw new Skipped('the client makes the record batches itself')
  const held = new Arguments(message, version, NAMES)
  const members = held.members(message.fields, value, '')
  const auth = members.get('authBytes')
  // Its caller writes the length of these bytes.
  if (auth && auth.value !== null) auth.value = new Encoder().writeBytes(auth.value).buffer
  const whole = WHOLE[message.name]
  const given = whole ? held.read(members.get(whole)) : held.struct(members, '')
  const { buffer } = await versions.get(version)(given).request.encode()
  held.check()
  if (!HEADER_TAGS.has(api)) return { hex: buffer.toString('hex') }
  if (buffer[0] !== 0) throw new Refused('refused', 'the header does not end with no tagged fields')
  return { hex: buffer.toString('hex', 1) }
}

async function decode ({ message, api, versions }, version, bytes) {
  const { response } = versions.get(version)({})
  const frame = HEADER_TAGS.has(api) ? Buffer.concat([Buffer.from([0]), bytes]) : bytes
  let value
  try {
    value = await response.decode(frame)
  } catch (error) {
    // Codecs of compression are packages of their own.
    if (error.name === 'KafkaJSNotImplemented') throw new Skipped(error.message)
    throw error
  }
  // The client keeps the length before these bytes, for its callers.
  if (value.authBytes) value.authBytes = value.authBytes.subarray(4)
  return { value: new Result(message, version, NAMES).struct(message.fields, value, '') }
}

const notes = 'Requests are only written and responses only read; records are not kept.'
const found = modules(readSpecs(specs))
await serve({ name: 'kafkajs', root, notes, found, encode, decode })
