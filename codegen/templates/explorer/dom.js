// What the pages are built with: elements, and files that are loaded once.

/** Build an element; an attribute `on…` is a listener, false and null attributes are left out. */
export function h (tag, attributes, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else if (value !== false && value != null) element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false))
  return element
}

const loaded = new Map()

/** Load `data/NAME.json` once. */
export function data (name) {
  if (!loaded.has(name)) {
    const url = new URL(`data/${name}.json`, import.meta.url)
    loaded.set(name, fetch(url).then((answer) => {
      if (answer.ok) return answer.json()
      throw new Error(`There is no ${name} here.`)
    }))
  }
  return loaded.get(name)
}
