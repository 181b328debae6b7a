// The frame of the site: which page is shown, the search, dark and light.

import { data, h } from './dom.js'
import { errors, home, message, release, releases } from './pages.js'

const FOUND_MAX = 40
const main = document.getElementById('main')
const search = document.getElementById('search')
const found = document.getElementById('found')
const count = document.getElementById('count')
const theme = document.getElementById('theme')

const ROUTES = {
  '': home,
  message,
  errors,
  releases,
  release,
  bytes: async (...rest) => (await import('./bytes.js')).bytes(...rest)
}

let turn = 0

async function show () {
  const mine = ++turn
  const [, name = '', ...rest] = location.hash.split('/').map(decodeURIComponent)
  let content
  try {
    if (!Object.hasOwn(ROUTES, name)) throw new Error(`There is no page ${name} here.`)
    content = await ROUTES[name](...rest)
  } catch (error) {
    content = [h('h1', {}, 'Not found'), h('p', { class: 'wrong', role: 'alert' }, error.message)]
  }
  if (mine !== turn) return
  main.replaceChildren(...content.flat(Infinity))
  document.title = `${main.querySelector('h1').textContent} – Protocol explorer`
  for (const link of document.querySelectorAll('nav a')) {
    const here = link.getAttribute('href') === (name ? `#/${name}` : '#/')
    here ? link.setAttribute('aria-current', 'page') : link.removeAttribute('aria-current')
  }
  const target = main.querySelector('tr.lit')
  if (target) target.scrollIntoView({ block: 'center' })
  else window.scrollTo(0, 0)
  main.dataset.shown = location.hash
}

// -------------------------------------------------------------------------------- the search

async function matches (text) {
  const [{ messages }, more] = await Promise.all([data('index'), data('search')])
  const rank = (name) => {
    const low = name.toLowerCase()
    return low === text ? 0 : low.startsWith(text) ? 1 : low.includes(text) ? 2 : 9
  }
  const hits = []
  const add = (weight, label, kind, href) => { if (weight < 9) hits.push({ weight, label, kind, href }) }
  for (const one of messages) {
    const byKey = one.apiKey !== null && String(one.apiKey) === text
    add(byKey ? 0 : rank(one.name), one.name, one.type, `#/message/${one.name}`)
  }
  for (const [code, name] of more.errors) {
    add(String(code) === text ? 0 : rank(name), `${name} ${code}`, 'error', `#/errors/${code}`)
  }
  for (const name of more.releases) add(rank(name), name, 'release', `#/release/${name}`)
  for (const [name, owners] of Object.entries(more.fields)) {
    if (!text.includes('.') && rank(name) === 9) continue
    for (const [owner, version] of owners) {
      const one = messages[owner].name
      const label = `${one}.${name}`
      add(rank(text.includes('.') ? label : name) + 0.5, label, 'field', `#/message/${one}/${version}/${name}`)
    }
  }
  return hits.sort((a, b) => a.weight - b.weight || a.label.length - b.label.length)
}

async function find () {
  const text = search.value.trim().toLowerCase()
  if (!text) return close()
  const hits = await matches(text)
  if (text !== search.value.trim().toLowerCase()) return
  found.replaceChildren(...hits.slice(0, FOUND_MAX).map(({ label, kind, href }) =>
    h('li', {}, h('a', { href, onclick: close }, h('span', {}, label), h('small', {}, kind)))))
  found.hidden = hits.length === 0
  count.textContent = hits.length === 0
    ? 'Nothing has that name.'
    : `${hits.length} found${hits.length > FOUND_MAX ? `, ${FOUND_MAX} shown` : ''}`
}

function close () {
  found.hidden = true
  count.textContent = ''
}

function move (event) {
  const links = [...found.querySelectorAll('a')]
  const at = links.indexOf(document.activeElement)
  if (event.key === 'Escape') {
    close()
    search.focus()
  } else if (event.key === 'Enter' && at < 0) links[0]?.click()
  else if (event.key === 'ArrowDown') links[Math.min(at + 1, links.length - 1)]?.focus()
  else if (event.key === 'ArrowUp') (at > 0 ? links[at - 1] : search).focus()
  else return
  event.preventDefault()
}

search.addEventListener('input', find)
search.parentElement.addEventListener('keydown', move)
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.closest('input, textarea, select')) return
  event.preventDefault()
  search.select()
})

// ----------------------------------------------------------------------------- dark and light

const dark = matchMedia('(prefers-color-scheme: dark)')

function paint () {
  const chosen = localStorage.getItem('theme')
  document.documentElement.style.colorScheme = chosen ?? ''
  theme.textContent = (chosen ?? (dark.matches ? 'dark' : 'light')) === 'dark' ? 'Light' : 'Dark'
}

theme.addEventListener('click', () => {
  localStorage.setItem('theme', theme.textContent.toLowerCase())
  paint()
})
dark.addEventListener('change', paint)
paint()
addEventListener('hashchange', async () => {
  close()
  await show()
  if (document.activeElement !== search) main.focus({ preventScroll: true })
})
data('index').then(({ title }) => { document.getElementById('title').textContent = title })
show()
