// @platformatic/kafka behind the harness protocol: node main.mjs PACKAGE SPECS
//
// The client has a module for each API and version, which writes the request from arguments and
// reads the response into an object. It has no other direction, so an adapter cannot ask it for
// one: encoding a response and decoding a request are answered "skipped". Arguments and objects
// have the schemas' names where nothing else is said below; what a field is (an int64 is a BigInt
// in JavaScript, a uuid a string) the schemas in SPECS say.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { serve } from './harness.mjs'
import { NAMES } from './names.mjs'
import { readSpecs } from './specs.mjs'
import { Arguments, Result, Skipped } from './values.mjs'

const [root, specs] = process.argv.slice(2)
const dist = join(root, 'dist')
const load = file => import(pathToFileURL(join(dist, file)))

async function modules (messages) {
  const found = new Map()
  for (const folder of readdirSync(join(dist, 'apis'), { withFileTypes: true })) {
    if (!folder.isDirectory()) continue
    for (const file of readdirSync(join(dist, 'apis', folder.name))) {
      if (!/-v\d+\.js$/.test(file)) continue
      const module = await load(join('apis', folder.name, file))
      for (const type of ['request', 'response']) {
        const message = messages.get(`${module.api.key} ${type}`)
        if (!message) continue
        if (!found.has(message.name)) found.set(message.name, { message, versions: new Map() })
        found.get(message.name).versions.set(module.api.version, module)
      }
    }
  }
  return found
}

// The arguments of createRequest, by the names of its parameters.
function argumentList (createRequest, held, value) {
  const fields = held.message.fields
  const members = held.members(fields, value, '')
  const whole = held.renamed('', undefined)
  const known = fields.map(field => [held.renamed(field.name, field.name), field])
  const scalars = new Set(known.filter(([, field]) => !field.array).map(([name]) => name))
  return parameters(createRequest).map(name => {
    if (name === whole) return held.struct(members, '')
    if (members.has(name)) return held.read(members.get(name))
    // A parameter may be a field of other versions, or be left over (an underscore says so).
    if (scalars.has(name) || name.startsWith('_')) return undefined
    throw new Skipped(`createRequest takes ${name}, which is no field of v${held.version}`)
  })
}

function parameters (createRequest) {
  const [, list] = /^function \w*\(([^)]*)\)/.exec(createRequest.toString())
  return list.split(',').map(word => word.split('=')[0].trim()).filter(Boolean)
}

function encode ({ message, versions }, version, value) {
  const { createRequest } = versions.get(version)
  const held = new Arguments(message, version, NAMES)
  const hex = createRequest(...argumentList(createRequest, held, value)).buffer.toString('hex')
  held.check()
  return { hex }
}

const { Reader } = await load('protocol/reader.js')

function decode ({ message, versions }, version, bytes) {
  const { api, parseResponse } = versions.get(version)
  let value
  try {
    value = parseResponse(0, api.key, version, Reader.from(bytes))
  } catch (error) {
    // Records in zstd need a Node.js of 22.15 or newer.
    if (/not supported in the current Node/.test(error.message)) throw new Skipped(error.message)
    // A response that tells of an error is thrown, with all that it holds.
    if (error.code !== 'PLT_KFK_RESPONSE') throw error
    value = error.response
  }
  return { value: new Result(message, version, NAMES).struct(message.fields, value, '') }
}

const notes = 'Requests are only written and responses only read; tagged fields are not kept.'
const found = await modules(readSpecs(specs))
await serve({ name: 'platformatic-kafka', root, notes, found, encode, decode })
