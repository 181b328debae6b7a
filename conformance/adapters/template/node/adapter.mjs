// Your codec behind the harness protocol: put it in the place of the walk in encode and decode.

import { stdin, stdout } from 'node:process'
import { createInterface } from 'node:readline'
import { format, parse } from './json.mjs'
import * as walk from './walk.mjs'

const HELLO = {
  protocol: 1n,
  name: 'my-codec',
  language: 'javascript',
  version: '0.1.0',
  spec: 'kafka/4.4.0',
  messages: walk.ranges() // What you serve: { VoteRequest: '0-2' }
}

// Returns the bytes of a message; throws whatever you like to refuse it.
function encode (message, version, value) {
  return walk.encode(message, version, value) // Your codec goes here.
}

// Returns what the bytes hold; throws whatever you like to refuse them.
function decode (message, version, data) {
  return walk.decode(message, version, data) // Your codec goes here.
}

function answer (request) {
  if (request.spec !== undefined) {
    return { skipped: { reason: 'only the messages of Apache Kafka are served' } }
  }
  const { cmd, message, version } = request
  try {
    if (cmd === 'encode') return { hex: encode(message, version, request.value).toString('hex') }
    return { value: decode(message, version, Buffer.from(request.hex, 'hex')) }
  } catch (error) {
    return { error: { class: 'refused', detail: String(error) } }
  }
}

for await (const line of createInterface({ input: stdin })) {
  const request = parse(line)
  if (request.cmd === 'stop') break
  const reply = request.cmd === 'hello' ? HELLO : { id: request.id, ...answer(request) }
  stdout.write(format(reply) + '\n')
}
stdin.destroy()
