// JSON with exact 64-bit integers, which JavaScript's own reader would round.

// A number to be written as this text.
export class Raw {
  constructor (text) {
    this.text = text
  }
}

const STRING_OR_LONG_INTEGER = /"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g
const MARK = '\u0000'

// Integers of 16 digits and more become BigInt, all other numbers what they always are.
export function parse (text) {
  const marked = text.replace(STRING_OR_LONG_INTEGER, found =>
    found[0] === '"' ? found : `"\\u0000${found}"`
  )
  return JSON.parse(marked, (_, value) =>
    typeof value === 'string' && value.startsWith(MARK) && /^-?\d{16,}$/.test(value.slice(1))
      ? BigInt(value.slice(1))
      : value
  )
}

export function stringify (value) {
  if (value instanceof Raw) return value.text
  if (Array.isArray(value)) return `[${value.map(stringify).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value ?? null)
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}:${stringify(member)}`)
  return `{${members.join(',')}}`
}
