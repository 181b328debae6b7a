// JSON in which integers are exact: they are bigints, and numbers are those with a fraction or an
// exponent. JavaScript's own reader rounds integers of more than 53 bits.

/** A JSON value: an integer is a bigint, any other number a number. */
export type Json = null | boolean | bigint | number | string | Json[] | JsonObject

/** An object without a prototype, so that no name means anything by itself. */
export interface JsonObject { [name: string]: Json }

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y
const SPACE = /[ \t\n\r]*/y
const DEPTH_MAX = 500 // Deeper input is refused before the stack ends.

/** Read JSON; throws a SyntaxError that names the character. */
export function parseJson (text: string): Json {
  let at = 0
  let depth = 0

  function wrong (): never {
    throw new SyntaxError(`not JSON at character ${at}`)
  }

  function space (): void {
    SPACE.lastIndex = at
    SPACE.test(text)
    at = SPACE.lastIndex
  }

  function word<T> (word: string, value: T): T {
    if (!text.startsWith(word, at)) wrong()
    at += word.length
    return value
  }

  function string (): string {
    const start = at++
    let plain = true
    for (; ; at++) {
      const unit = text.charCodeAt(at)
      if (unit === 34) break
      if (unit === 92) {
        plain = false
        at++
      } else if (!(unit >= 32)) wrong()
    }
    at++
    return plain ? text.slice(start + 1, at - 1) : JSON.parse(text.slice(start, at)) as string
  }

  function number (): bigint | number {
    NUMBER.lastIndex = at
    const match = NUMBER.exec(text)
    if (match === null) return wrong()
    at = NUMBER.lastIndex
    return match[1] === undefined && match[2] === undefined ? BigInt(match[0]) : Number(match[0])
  }

  /** Read what is between brackets, whose first one is at hand. */
  function items (close: string, item: () => void): void {
    if (++depth > DEPTH_MAX) wrong()
    at++
    space()
    if (text[at] === close) {
      at++
    } else {
      for (; ;) {
        item()
        space()
        const next = text[at++]
        if (next === close) break
        if (next !== ',') {
          at--
          wrong()
        }
      }
    }
    depth--
  }

  function value (): Json {
    space()
    switch (text[at]) {
      case '{': {
        const out = Object.create(null) as JsonObject
        items('}', () => {
          space()
          if (text[at] !== '"') wrong()
          const name = string()
          space()
          if (text[at++] !== ':') wrong()
          out[name] = value()
        })
        return out
      }
      case '[': {
        const out: Json[] = []
        items(']', () => { out.push(value()) })
        return out
      }
      case '"': return string()
      case 't': return word('true', true)
      case 'f': return word('false', false)
      case 'n': return word('null', null)
      default: return number()
    }
  }

  const out = value()
  space()
  if (at !== text.length) wrong()
  return out
}

/** Write JSON; `indent` puts each member on a line of its own. */
export function formatJson (value: Json, indent = ''): string {
  return format(value, indent, '\n')
}

function format (value: Json, indent: string, line: string): string {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'number') return formatNumber(value)
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const inner = line + indent
  const members = Array.isArray(value)
    ? value.map(item => format(item, indent, inner))
    : Object.keys(value).map(name =>
      `${JSON.stringify(name)}:${indent && ' '}${format(value[name]!, indent, inner)}`)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  if (members.length === 0) return `${open}${close}`
  return indent
    ? `${open}${inner}${members.join(`,${inner}`)}${line}${close}`
    : `${open}${members.join(',')}${close}`
}

/** A number keeps its fraction, so that it is not taken for an integer. */
function formatNumber (value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value)
  return /[.e]/.test(text) ? text : `${text}.0`
}
