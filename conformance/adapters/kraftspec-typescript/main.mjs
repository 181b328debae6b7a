// The TypeScript codecs behind the harness protocol: node main.mjs CODECS VERSION SPEC
//
// CODECS is what the compiler made of `kraftspec generate --target typescript`.

import { join } from 'node:path'
import { stdin, stdout } from 'node:process'
import { pathToFileURL } from 'node:url'
import { gunzipSync } from 'node:zlib'

import { Decompress, ZstdErrorCode } from 'fzstd'

const [codecs, version, spec] = process.argv.slice(2)
const load = file => import(pathToFileURL(join(codecs, file)))
const { CodecError, formatJson, fromHex, parseJson, toHex } = await load('runtime/index.js')
const { byPieces, decompressors, RecordBatch } = await load('runtime/record_batch.js')

const ERRORS = {
  ERR_BUFFER_TOO_LARGE: 'decompression_bomb',
  Z_BUF_ERROR: 'truncated',
  [ZstdErrorCode.UnexpectedEOF]: 'truncated'
}

/** Gives the errors of a decompressor the classes that they have in the vectors. */
const classed = inflate => (data, max) => {
  try {
    return inflate(data, max)
  } catch (error) {
    const errorClass = ERRORS[error.code]
    throw errorClass ? new CodecError(errorClass, error.message) : error
  }
}

decompressors.set(1, classed((data, maxOutputLength) => gunzipSync(data, { maxOutputLength })))

const ZSTD_MAGIC = 0xfd2fb528
const ZSTD_SKIPPED = 0x184d2a5 // All but the last four bits of what begins a frame without content.
const DICTIONARY_BYTES = [0, 1, 2, 4]
const CONTENT_SIZE_BYTES = [0, 2, 4, 8]
const RUN_OF_ONE_BYTE = 1 // The kind of a block, whose size is not that of its bytes.

/** Returns where the frame of zstd at `at` ends (RFC 8878); beyond the data where it is cut. */
function zstdEnd (data, at) {
  const flags = data[at + 4]
  const isSingle = flags >> 5 & 1
  at += 5 + DICTIONARY_BYTES[flags & 3] +
    (isSingle ? CONTENT_SIZE_BYTES[flags >> 6] || 1 : 1 + CONTENT_SIZE_BYTES[flags >> 6])
  for (let isLast = 0; !isLast && at < data.length;) {
    const block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    isLast = block & 1
    at += 3 + ((block >> 1 & 3) === RUN_OF_ONE_BYTE ? 1 : block >> 3)
  }
  return at + (flags >> 2 & 1 ? 4 : 0)
}

// The package takes bytes after the last frame for the beginning of a cut one.
const zstd = (data, max) => {
  const view = new DataView(data.buffer, data.byteOffset, data.length)
  let at = 0
  while (at + 8 <= data.length) {
    const magic = view.getUint32(at, true)
    if (magic === ZSTD_MAGIC) at = zstdEnd(data, at)
    else if (magic >>> 4 === ZSTD_SKIPPED) at += 8 + view.getUint32(at + 4, true)
    else break
  }
  if (at > 0 && at < data.length) {
    const detail = `${data.length - at} bytes after the last frame of zstd`
    throw new CodecError('trailing', detail, '', at)
  }
  return byPieces(Decompress)(data, max)
}
decompressors.set(4, classed(zstd))

const KAFKA = 'kafka'
const BATCH = 'RecordBatch' // Has no schema, and is served as one of the set.
const sets = new Map()
for (const name of [KAFKA, 'kip-595', 'kip-853', 'kip-996']) {
  sets.set(name, await load(`${name.replace('-', '_')}/index.js`))
}

const messages = new Map([[`${KAFKA}/${BATCH}`, RecordBatch]]) // By set and name, once loaded.

function messageOf (set, name) {
  if (typeof set !== 'string' || typeof name !== 'string') {
    throw new CodecError('unknown_message', '"message" and "spec" must be strings')
  }
  const known = messages.get(`${set}/${name}`)
  if (known) return known
  if (!sets.has(set)) throw new CodecError('unknown_message', `there is no set ${set}`)
  throw new CodecError('unknown_message', `${set} has no message ${name}`)
}

async function prepare ({ spec = KAFKA, message }) {
  const key = `${spec}/${message}`
  const set = sets.get(spec)
  if (messages.has(key) || !set || !Object.hasOwn(set.CATALOGUE, message)) return
  messages.set(key, await set.load(message))
}

// The version in a request is any JSON; a bigint that is no version stays what it is.
const versionOf = version => typeof version === 'bigint' ? Number(version) : version

function encode (request) {
  const version = versionOf(request.version)
  const message = messageOf(request.spec ?? KAFKA, request.message)
  return { hex: toHex(message.encode(message.fromJson(request.value ?? null, version), version)) }
}

function decode (request) {
  const version = versionOf(request.version)
  const message = messageOf(request.spec ?? KAFKA, request.message)
  const data = typeof request.hex === 'string' ? fromHex(request.hex) : undefined
  if (!data) throw new CodecError('wrong_type', '"hex" must be a string of hex digits')
  return { value: message.toJson(message.decode(data, version), version) }
}

function ranges ({ CATALOGUE }) {
  return Object.fromEntries(Object.entries(CATALOGUE).map(([name, { firstVersion, lastVersion }]) =>
    [name, lastVersion < firstVersion ? 'none' : `${firstVersion}-${lastVersion}`]))
}

const versions = { ...ranges(sets.get(KAFKA)), [BATCH]: `${RecordBatch.firstVersion}-${RecordBatch.lastVersion}` }

const hello = () => ({
  protocol: 1n,
  name: 'kraftspec-typescript',
  language: 'typescript',
  version,
  spec,
  messages: versions,
  sets: Object.fromEntries(
    [...sets].filter(([name]) => name !== KAFKA).map(([name, set]) => [name, ranges(set)])
  )
})

const COMMANDS = new Map([['hello', hello], ['encode', encode], ['decode', decode]])

async function answer (request) {
  const { cmd, id } = request
  const named = cmd === 'hello' ? {} : { id: id ?? null }
  try {
    const command = COMMANDS.get(cmd)
    if (!command) throw new CodecError('wrong_type', `there is no command ${cmd}`)
    await prepare(request)
    return { ...named, ...command(request) }
  } catch (error) {
    if (!(error instanceof CodecError)) throw error
    const { errorClass, path, offset, detail } = error
    const where = offset === undefined ? {} : { offset: BigInt(offset) }
    return { ...named, error: { class: errorClass, path, ...where, detail } }
  }
}

async function answers (lines) {
  const replies = []
  for (const line of lines) {
    if (!line.trim()) continue
    const request = parseJson(line)
    if (request.cmd === 'stop') return { replies, stopped: true }
    replies.push(`${formatJson(await answer(request))}\n`)
  }
  return { replies, stopped: false }
}

let pending = []
const decoder = new TextDecoder()
for await (const chunk of stdin) {
  const text = decoder.decode(chunk, { stream: true })
  const end = text.lastIndexOf('\n')
  if (end < 0) {
    pending.push(text)
    continue
  }
  const lines = (pending.join('') + text.slice(0, end)).split('\n')
  pending = [text.slice(end + 1)]
  const { replies, stopped } = await answers(lines)
  stdout.write(replies.join(''))
  if (stopped) break
}
stdin.destroy()
