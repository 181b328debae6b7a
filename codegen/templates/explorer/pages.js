// The pages of what the protocol has: messages, errors, releases. Bytes have a module of their own.

import { data, h } from './dom.js'
import { ruler } from './ruler.js'

const messageLink = (name) => h('a', { href: `#/message/${name}` }, name)
const code = (text) => h('code', {}, text)
const listed = (paths) => paths.flatMap((path, index) => [index ? ', ' : '', code(path)])

export async function home () {
  const { title, groups, messages } = await data('index')
  const requests = messages.filter(({ type }) => type === 'request')
    .sort((a, b) => a.apiKey - b.apiKey)
  const has = new Set(messages.map(({ name }) => name))
  const row = ({ name, apiKey, versions }) => {
    const answer = name.replace(/Request$/, 'Response')
    return h('tr', {}, h('td', {}, String(apiKey)), h('td', {}, messageLink(name)),
      h('td', {}, has.has(answer) ? messageLink(answer) : ''), h('td', {}, versions))
  }
  return [
    h('h1', {}, title),
    h('p', {}, 'Every message with its bytes and its history. ',
      h('a', { href: '#/bytes' }, 'Paste bytes'), ' to see what they say. The key ', code('/'), ' searches.'),
    h('h2', {}, 'APIs'),
    table(['key', 'request', 'response', 'versions'], requests.map(row)),
    Object.entries(groups).filter(([type]) => type !== 'request' && type !== 'response').map(
      ([type, heading]) => [
        h('h2', {}, heading),
        h('ul', { class: 'names' }, messages.filter((one) => one.type === type)
          .map(({ name, versions }) => h('li', {}, messageLink(name), ' ', h('small', {}, versions))))
      ])
  ]
}

function table (heads, rows, label = 'table') {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, h('table', {},
    h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col' }, head)))),
    h('tbody', {}, rows)))
}

export async function message (name, number = '', field = '') {
  const { messages } = await data('index')
  if (!messages.some((one) => one.name === name)) throw new Error(`There is no message ${name} here.`)
  const of = await data(`message/${name}`)
  const version = of.versions.find((one) => String(one.version) === number) ?? of.versions.at(-1)
  const content = [
    h('h1', {}, of.name),
    h('p', {}, of.type, of.apiKey === null ? '' : `, API key ${of.apiKey}`, `. Versions ${of.valid}`,
      `; flexible: ${of.flexible}`, of.deprecated === 'none' ? '' : `; deprecated: ${of.deprecated}`,
      of.unstable ? '; the latest is not stable' : '', '.',
      of.listeners.length ? ` Answered by ${of.listeners.join(', ')}.` : '',
      of.other ? [' ', messageLink(of.other), '.'] : '',
      of.codes ? [' ', h('a', { href: '#/errors' }, 'Error codes'), '.'] : '')
  ]
  if (version) content.push(versions(of, version), layout(of, version, field))
  else content.push(h('p', {}, 'No version is left.'))
  if (of.history.length) {
    content.push(h('h2', {}, 'By release of Kafka'), of.history.map(([release, lines]) => [
      h('h3', {}, h('a', { href: `#/release/${release}` }, release)),
      h('ul', {}, lines.map((line) => h('li', {}, line)))]))
  }
  return content
}

function versions (of, chosen) {
  return h('ul', { class: 'versions', 'aria-label': 'Versions' }, of.versions.map(({ version }) =>
    h('li', {}, h('a', {
      href: `#/message/${of.name}/${version}`,
      'aria-label': `version ${version}`,
      'aria-current': version === chosen.version && 'true'
    }, String(version)))))
}

function layout (of, version, field) {
  const header = version.headerVersion === null ? '' : `, behind ${of.type} header ${version.headerVersion}`
  const paths = []
  const rows = version.rows.map((row) => {
    paths.length = row.depth
    paths.push(row.name)
    const path = paths.join('.')
    const kind = [version.added.includes(path) ? 'new' : '', row.name === field ? 'lit' : ''].join(' ')
    return h('tr', { class: kind, 'data-path': path },
      h('td', { class: 'mono', style: `padding-left: ${0.6 + 0.9 * row.depth}rem` }, row.name,
        row.tag === null ? '' : h('small', {}, ` tag ${row.tag}`)),
      h('td', {}, row.wire, row.nullable ? h('small', {}, ' nullable') : ''), h('td', {}, row.form),
      h('td', {}, row.default), h('td', { class: 'about' }, row.about))
  })
  const same = version.sameAs === null
    ? ''
    : [' The same bytes as ', h('a', { href: `#/message/${of.name}/${version.sameAs}` }, `version ${version.sameAs}`), '.']
  const part = h('section', { onpointerover: light, onpointerout: dim },
    h('h2', {}, `Version ${version.version}`),
    h('p', {}, `${version.flexible ? 'Flexible' : 'Not flexible'}${header}.`,
      version.added.length ? [' New: ', listed(version.added), '.'] : '',
      version.gone.length ? [' Gone: ', listed(version.gone), '.'] : '', same, ' ',
      h('a', { href: `#/bytes/${of.name}/${version.version}` }, 'Try its bytes'), '.'),
    ruler(of, version))
  if (rows.length) part.append(h('h3', {}, 'Fields'), table(['field', 'type', 'bytes', 'default', 'about'], rows, 'fields'))
  return part
}

function light (event) {
  const path = event.target.closest('[data-path]')?.dataset.path
  if (path === undefined) return
  for (const one of this.querySelectorAll('[data-path]')) one.classList.toggle('lit', one.dataset.path === path)
}

function dim () {
  for (const one of this.querySelectorAll('.lit')) one.classList.remove('lit')
}

export async function errors (chosen = '') {
  const { errors } = await data('search')
  return [h('h1', {}, 'Error codes'), table(['code', 'name', 'retriable'], errors.map(([code, name, retriable]) =>
    h('tr', { class: String(code) === chosen && 'lit' }, h('td', {}, String(code)),
      h('td', { class: 'mono' }, name), h('td', {}, retriable ? 'yes' : 'no'))))]
}

export async function releases (from = '', to = '') {
  const all = await data('releases')
  const names = all.map(({ release }) => release)
  const pick = (label, chosen) => h('select', { onchange: go },
    names.map((name) => h('option', { selected: name === chosen }, name)))
  const first = pick('from', names.includes(from) ? from : names.at(-2))
  const second = pick('to', names.includes(to) ? to : names.at(-1))
  function go () {
    location.hash = `#/releases/${first.value}/${second.value}`
  }
  const content = [
    h('h1', {}, 'Releases'),
    h('div', { class: 'form' }, h('label', {}, 'What changed from', h('br'), first),
      h('label', {}, 'to', h('br'), second), h('button', { type: 'button', onclick: go }, 'Compare'))
  ]
  if (from && to) return [...content, await between(names, from, to)]
  const row = (one) => h('tr', {}, h('td', {}, h('a', { href: `#/release/${one.release}` }, one.release)),
    h('td', {}, String(one.messages)), h('td', {}, String(one.apis)), h('td', {}, String(one.new.length)),
    h('td', {}, String(one.changed)), h('td', {}, String(one.gone.length)))
  return [...content, table(['release', 'messages', 'APIs', 'new', 'changed', 'gone'], all.toReversed().map(row))]
}

async function between (names, from, to) {
  const [low, high] = [names.indexOf(from), names.indexOf(to)]
  if (low < 0 || high < 0) throw new Error(`There is no release ${low < 0 ? from : to} here.`)
  const passed = names.slice(Math.min(low, high) + 1, Math.max(low, high) + 1)
  const steps = await Promise.all(passed.map(async (name) => [name, await data(`release/${name}`)]))
  const changed = new Map()
  for (const [release, rows] of steps) {
    for (const [name, lines] of rows) {
      if (!changed.has(name)) changed.set(name, [])
      changed.get(name).push(h('li', {}, h('a', { href: `#/release/${release}` }, release),
        h('ul', {}, lines.map((line) => h('li', {}, line)))))
    }
  }
  const [old, young] = low < high ? [from, to] : [to, from]
  return [h('h2', {}, `From ${old} to ${young}: ${changed.size} messages changed`),
    [...changed].sort(([a], [b]) => a < b ? -1 : 1).map(([name, items]) => [
      h('h3', {}, messageLink(name)), h('ul', {}, items)])]
}

export async function release (name) {
  const one = (await data('releases')).find(({ release }) => release === name)
  if (!one) throw new Error(`There is no release ${name} here.`)
  const rows = await data(`release/${name}`)
  return [
    h('h1', {}, `Kafka ${name}`),
    h('p', {}, `${one.messages} messages, ${one.apis} APIs; ${one.new.length} new, ${one.changed} changed, ${one.gone.length} gone.`),
    rows.map(([message, lines]) => [h('h3', {}, messageLink(message)),
      h('ul', {}, lines.map((line) => h('li', {}, line)))])
  ]
}
