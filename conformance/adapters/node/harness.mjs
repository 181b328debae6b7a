// The harness protocol, over a client of JavaScript.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parse, stringify } from './exact.mjs'
import { Refused, Skipped } from './values.mjs'

// Answer one request. `client` is as `serve` has it.
async function answer (request, client) {
  try {
    const { cmd, message, version, spec } = request
    if (spec !== undefined) throw new Skipped('only the messages of Apache Kafka are served')
    const known = client.found.get(message)
    if (!known) throw new Refused('unknown_message', `the client has no ${message}`)
    if (!known.versions.has(version)) {
      const versions = [...known.versions.keys()]
      const detail = `the client has ${message} in versions ${versions.join(', ')}`
      const gap = Math.min(...versions) < version && version < Math.max(...versions)
      throw gap ? new Skipped(detail) : new Refused('unsupported_version', detail)
    }
    if (cmd === 'encode') {
      if (known.message.type === 'response') throw new Skipped('the client does not write responses')
      return await client.encode(known, version, request.value)
    }
    if (known.message.type === 'request') throw new Skipped('the client does not read requests')
    return await client.decode(known, version, Buffer.from(request.hex, 'hex'))
  } catch (error) {
    if (error instanceof Skipped) return { skipped: { reason: error.message } }
    const errorClass = error instanceof Refused ? error.errorClass : 'refused'
    return { error: { class: errorClass, detail: `${error.name}: ${error.message}` } }
  }
}

// Answer the requests on standard input until `stop`.
//
// `client` has its `name`, the `root` of its package, `notes` for the hello, the messages that it
// has by name (`found`: `message` of the specs, `versions` in a map), and what `encode` and
// `decode` make of one at a version.
export async function serve (client) {
  const range = ({ versions }) => `${Math.min(...versions.keys())}-${Math.max(...versions.keys())}`
  const hello = {
    protocol: 1,
    name: client.name,
    language: 'javascript',
    version: JSON.parse(readFileSync(join(client.root, 'package.json'))).version,
    spec: 'kafka',
    messages: Object.fromEntries([...client.found].map(([name, known]) => [name, range(known)])),
    notes: client.notes
  }
  for await (const line of createInterface({ input: process.stdin })) {
    const request = parse(line)
    if (request.cmd === 'stop') break
    const reply = request.cmd === 'hello' ? hello : { id: request.id, ...await answer(request, client) }
    process.stdout.write(`${stringify(reply)}\n`)
  }
  process.stdin.destroy()
}
