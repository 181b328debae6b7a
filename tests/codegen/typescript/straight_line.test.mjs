// The straight-line code and the interpreter do the same with each valid vector: node --test, with
// CODECS the compiled codecs and VECTORS the vectors.
//
// A message falls back on the interpreter without a word, so that nothing else would show it.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const load = file => import(pathToFileURL(join(process.env.CODECS, file)))
const { fromHex, toHex } = await load('runtime/index.js')
const { Reader } = await load('runtime/reader.js')
const { acquire, release } = await load('runtime/writer.js')

for (const set of ['kafka', 'kip-595', 'kip-853', 'kip-996']) {
  test(`vectors of ${set}`, async () => {
    const index = await load(`${set.replace('-', '_')}/index.js`)
    const folder = join(process.env.VECTORS, set)
    let count = 0
    for (const file of readdirSync(folder)) {
      const { message: name, tests } = JSON.parse(readFileSync(join(folder, file), 'utf8'))
      if (!Object.hasOwn(index.CATALOGUE, name)) continue
      const message = await index.load(name)
      for (const { id, version, op, result, hex } of tests) {
        if (op !== 'roundtrip' || result !== 'valid') continue
        const data = fromHex(hex)
        const number = version - message.firstVersion
        const from = new Reader(data, 0)
        const value = message.of.decoders[number](from)
        assert.equal(from.at, data.length, id)
        assert.deepEqual(message.explain(data, version).value, value, id)
        const to = acquire()
        message.of.encoders[number](value, to)
        assert.equal(toHex(to.whole()), hex, id)
        release(to)
        count++
      }
    }
    assert.ok(count > 1000, `${count} vectors`)
  })
}
