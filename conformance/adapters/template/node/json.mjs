// JSON with exact integers: an integer is a bigint, a number with a point or exponent a number.

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g
const MARK = '\u0000'

export function parse (text) {
  const marked = text.replace(TOKEN, token =>
    token[0] !== '"' && /^-?\d+$/.test(token) ? `"\\u0000${token}"` : token)
  return JSON.parse(marked, (_, value) =>
    typeof value === 'string' && value.startsWith(MARK) && /^-?\d+$/.test(value.slice(1))
      ? BigInt(value.slice(1))
      : value)
}

export function format (value) {
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') return Number.isInteger(value) ? float(value) : String(value)
  if (Array.isArray(value)) return `[${value.map(format).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const members = Object.entries(value)
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${format(member)}`).join(',')}}`
}

// A float has a point or an exponent: 1.0, -0.0, 1e+300.
function float (value) {
  const text = Object.is(value, -0) ? '-0' : String(value)
  return text.includes('e') ? text : `${text}.0`
}
