// The byte ruler: the fields of a version in the order of the wire, a tick a byte.

import { h } from './dom.js'

const STRUCT = /(?:^| of )[A-Z]/

/** Return rows, which have depths, as a tree: `{row, inner}`. */
export function nested (rows) {
  const top = []
  const open = [top]
  for (const row of rows) {
    const node = { row, inner: [] }
    open.length = row.depth + 1
    open[row.depth].push(node)
    open.push(node.inner)
  }
  return top
}

/** Return the ruler of a version; `added` are the paths that the version has brought. */
export function ruler (message, version) {
  const added = new Set(version.added)
  const before = []
  if (version.headerVersion !== null) {
    const header = message.type === 'request' ? 'RequestHeader' : 'ResponseHeader'
    before.push(cell({ name: 'size', wire: 'int32', size: 4 }, '', ''))
    before.push(h('a', { class: 'cell link', href: `#/message/${header}/${version.headerVersion}` },
      ticks(null), h('span', {}, header), h('span', {}, `version ${version.headerVersion}`)))
  }
  return h('div', { class: 'ruler' }, before, parts(nested(version.rows), '', added, version.flexible))
}

function parts (nodes, above, added, flexible) {
  const draw = ({ row, inner }) => {
    const path = above ? `${above}.${row.name}` : row.name
    const fresh = added.has(path) ? 'new' : ''
    if (!STRUCT.test(row.wire)) return cell(row, path, fresh)
    const lead = row.wire.includes('array') ? `${row.form}, then each:` : row.form
    return h('div', { class: `group ${fresh}`, 'data-path': path },
      h('span', {}, tagged(row), h('strong', {}, row.name), ` ${lead}`),
      h('div', {}, parts(inner, path, added, flexible)))
  }
  const plain = nodes.filter(({ row }) => row.tag === null).map(draw)
  if (!flexible) return plain
  const tags = nodes.filter(({ row }) => row.tag !== null).map(draw)
  const count = cell({ name: 'tagged fields', wire: 'uvarint count', size: null }, '', '')
  return [...plain, count, ...tags]
}

function tagged (row) {
  return row.tag == null ? null : `tag ${row.tag}, size, `
}

function cell (row, path, fresh) {
  const kind = row.size === null ? 'vary' : ''
  return h('div', { class: `cell ${kind} ${fresh}`, 'data-path': path || null, title: row.form },
    ticks(row.size),
    h('span', {}, tagged(row), h('strong', {}, row.name)),
    h('span', {}, row.wire, row.nullable ? ' ?' : ''))
}

function ticks (size) {
  return h('span', { class: 'ticks', 'aria-hidden': 'true' },
    Array.from({ length: size ?? 1 }, () => h('i')))
}
