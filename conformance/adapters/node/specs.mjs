// Kafka's message schemas: which fields a version has, and of what type.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

function versions (text) {
  if (text === undefined || text === 'none') return [1, 0]
  const [first, last] = text.split('-')
  if (first.endsWith('+')) return [parseInt(first), Infinity]
  return [Number(first), Number(last ?? first)]
}

const within = ([first, last], version) => first <= version && version <= last

function readField (spec, structs) {
  const array = spec.type.startsWith('[]')
  const type = array ? spec.type.slice(2) : spec.type
  const inner = spec.fields ?? structs.get(type)
  const zero = { bool: 'false', string: '', bytes: '', uuid: 'A'.repeat(22) }[type] ?? '0'
  const byDefault = spec.default === undefined ? zero : String(spec.default)
  return {
    name: spec.name[0].toLowerCase() + spec.name.slice(1),
    type,
    array,
    fields: inner?.map(field => readField(field, structs)),
    versions: versions(spec.versions ?? spec.taggedVersions),
    tagged: spec.tag !== undefined,
    // Of the JSON value of the field.
    isDefault: value => {
      if (value === null) return byDefault === 'null'
      if (array) return value.length === 0 && byDefault !== 'null'
      return !inner && String(value) === byDefault
    }
  }
}

export const fieldsOf = (fields, version) => fields.filter(field => within(field.versions, version))

// Return the requests and responses by "apiKey type".
export function readSpecs (folder) {
  const messages = new Map()
  for (const file of readdirSync(folder)) {
    if (!file.endsWith('.json')) continue
    const spec = JSON.parse(readFileSync(join(folder, file), 'utf8').replace(/^\s*\/\/.*$/gm, ''))
    const structs = new Map((spec.commonStructs ?? []).map(({ name, fields }) => [name, fields]))
    const fields = (spec.fields ?? []).map(field => readField(field, structs))
    const valid = versions(spec.validVersions)
    const has = version => within(valid, version)
    messages.set(`${spec.apiKey} ${spec.type}`, { name: spec.name, type: spec.type, fields, has })
  }
  return messages
}
