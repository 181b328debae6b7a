// Captures: from packets to the frames of Kafka's connections, a response with its request.

import { CATALOGUE, nameOf } from './decode.js'

const FRAME_MAX = 100 << 20
const [TCP, SYN] = [6, 2]
const UNSUPPORTED_VERSION = 35
const LINK_BYTES = { 0: 4, 1: 14, 101: 0, 108: 4, 113: 16, 228: 0, 229: 0, 276: 20 }
const ETHERNET = 1
const VLANS = [0x8100, 0x88a8]

/** Whether bytes are a capture file, of either form. */
export function isCapture (data) {
  if (data.length < 24) return false
  const word = new DataView(data.buffer, data.byteOffset).getUint32(0)
  return [0xa1b2c3d4, 0xd4c3b2a1, 0xa1b23c4d, 0x4d3cb2a1, 0x0a0d0d0a].includes(word)
}

/**
 * Return the messages of a capture in the order in which their first bytes were seen:
 * `{ name, version, data, from, to }`, of which `data` is the frame with its size.
 */
export function messages (data) {
  const connections = new Map()
  let number = 0
  for (const { link, packet } of packets(data)) {
    const segment = tcp(packet, link)
    if (!segment) continue
    const key = [segment.from, segment.to].sort().join(' ')
    if (!connections.has(key)) connections.set(key, {})
    const connection = connections.get(key)
    const stream = connection[segment.from] ??= { ...segment, segments: [], first: undefined }
    if (segment.flags & SYN) {
      stream.first = (segment.sequence + 1) >>> 0
      if (!(segment.flags & 16)) connection.client = segment.from
    } else if (segment.data.length) stream.segments.push({ ...segment, number: number++ })
  }
  return [...connections.values()].flatMap(conversation).sort((a, b) => a.number - b.number)
}

function * packets (data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  if (view.getUint32(0) === 0x0a0d0d0a) return yield * blocks(data, view)
  const little = [0xd4c3b2a1, 0x4d3cb2a1].includes(view.getUint32(0))
  const link = view.getUint32(20, little) & 0xffff
  for (let at = 24; at + 16 <= data.length;) {
    const size = view.getUint32(at + 8, little)
    yield { link, packet: data.subarray(at + 16, at + 16 + size) }
    at += 16 + size
  }
}

/** The packets of the newer form, pcapng. */
function * blocks (data, view) {
  let [little, links] = [true, []]
  for (let at = 0; at + 12 <= data.length;) {
    if (view.getUint32(at) === 0x0a0d0d0a) {
      little = view.getUint32(at + 8, true) === 0x1a2b3c4d
      links = []
    }
    const [type, size] = [view.getUint32(at, little), view.getUint32(at + 4, little)]
    if (size < 12 || at + size > data.length) return
    if (type === 1) links.push(view.getUint16(at + 8, little))
    if (type === 6 && size >= 32) {
      const length = view.getUint32(at + 20, little)
      yield { link: links[view.getUint32(at + 8, little)], packet: data.subarray(at + 28, at + 28 + length) }
    }
    if (type === 3) yield { link: links[0], packet: data.subarray(at + 12, at + size - 4) }
    at += size + (-size & 3)
  }
}

function tcp (packet, link) {
  let at = LINK_BYTES[link]
  if (at === undefined || packet.length < at + 20) return
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength)
  while (link === ETHERNET && VLANS.includes(view.getUint16(at - 2)) && packet.length >= at + 24) at += 4
  let [ends, head, protocol, end] = [[], 0, 0, 0]
  if (packet[at] >> 4 === 4) {
    head = (packet[at] & 15) * 4
    protocol = packet[at + 9]
    end = at + (view.getUint16(at + 2) || packet.length)
    if (view.getUint16(at + 6) & 0x3fff) return // A fragment.
    ends = [12, 16].map((from) => packet.subarray(at + from, at + from + 4).join('.'))
  } else if (packet[at] >> 4 === 6 && packet.length >= at + 60) {
    head = 40
    protocol = packet[at + 6]
    end = at + 40 + (view.getUint16(at + 4) || packet.length)
    const words = (from) => Array.from({ length: 8 }, (_, word) => view.getUint16(at + from + 2 * word).toString(16))
    ends = [8, 24].map((from) => `[${words(from).join(':').replace(/(^|:)0(:0)+(:|$)/, '::')}]`)
  }
  at += head
  if (protocol !== TCP || packet.length < at + 20) return
  return {
    from: `${ends[0]}:${view.getUint16(at)}`,
    to: `${ends[1]}:${view.getUint16(at + 2)}`,
    sequence: view.getUint32(at + 4),
    flags: packet[at + 13],
    data: packet.subarray(at + (packet[at + 12] >> 4) * 4, Math.min(end, packet.length))
  }
}

/** Put the segments of one direction in order, without what came twice, up to the first gap. */
function joined ({ segments, first }) {
  const start = first ?? segments[0]?.sequence ?? 0
  const placed = segments.map((one) => ({ ...one, at: (one.sequence - start) | 0 })).sort((a, b) => a.at - b.at)
  const parts = []
  let end = 0
  for (const { at, data, number } of placed) {
    if (at > end) break
    if (at + data.length <= end) continue
    const part = data.subarray(end - at)
    parts.push({ at: end, part, number })
    end += part.length
  }
  const out = new Uint8Array(end)
  for (const { at, part } of parts) out.set(part, at)
  return { data: out, parts }
}

function * frames (stream) {
  const { data, parts } = joined(stream)
  const view = new DataView(data.buffer)
  let part = 0
  for (let at = 0; at + 8 <= data.length;) {
    const size = view.getInt32(at)
    if (size < 4 || size > FRAME_MAX || at + 4 + size > data.length) return
    while (part + 1 < parts.length && parts[part + 1].at <= at) part++
    yield { data: data.subarray(at, at + 4 + size), number: parts[part].number }
    at += 4 + size
  }
}

function conversation ({ client, ...streams }) {
  const sides = Object.values(streams).map((stream) => ({ stream, frames: [...frames(stream)] }))
  const asks = ({ stream, frames: [first] }) => client ? stream.from === client : first && request(first.data)
  const asking = sides.find(asks)
  if (!asking) return []
  const asked = new Map() // Correlation ids may come again.
  const out = []
  for (const { data, number } of asking.frames) {
    const is = request(data)
    if (!is) break
    const id = new DataView(data.buffer, data.byteOffset).getInt32(8)
    asked.set(id, [...asked.get(id) ?? [], is])
    out.push({ ...is, data, number, from: asking.stream.from, to: asking.stream.to })
  }
  for (const { stream, frames } of sides.filter((side) => side !== asking)) {
    for (const { data, number } of frames) {
      const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
      const is = asked.get(view.getInt32(4))?.shift()
      const name = is && nameOf('response', is.apiKey)
      if (!name) continue
      // A node that does not know the version of the question answers in version 0 (KIP-511).
      const unknown = name === 'ApiVersionsResponse' && data.length >= 10 && view.getInt16(8) === UNSUPPORTED_VERSION
      out.push({ name, version: unknown ? 0 : is.version, data, number, from: stream.from, to: stream.to })
    }
  }
  return out
}

function request (data) {
  if (data.length < 12) return
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  const [apiKey, version] = [view.getInt16(4), view.getInt16(6)]
  const name = nameOf('request', apiKey)
  const entry = CATALOGUE[name]
  if (entry && version >= entry.firstVersion && version <= entry.lastVersion) return { name, apiKey, version }
}
