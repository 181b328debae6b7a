"""Java properties files, as ``java.util.Properties`` reads and writes them.

``key=value`` lines; ``:`` or white space part them, too; ``#`` and ``!`` begin comments; a
backslash at the end of a line joins the next, and elsewhere takes a character as it is, or one of
t, n, r, f and uXXXX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPECIAL = re.compile(r"[\\\t\n\r\f=:#!]|[^\x20-\x7e]")


def parse_properties(text: str) -> dict[str, str]:
    """Read a file; of a key that is there twice, the last counts.

    Raises ValueError, with the line, for an escape that is none.
    """
    return {key: value for _, key, value in read_properties(text)}


def read_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of a property's first line, its key and its value, in order.

    Raises ValueError, with the line, for an escape that is none.
    """
    for number, line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        if match is None or "\\u" in _ESCAPE.sub("", line):
            raise ValueError(f"line {number}: {line!r} is no property")
        yield number, _unescape(match[1], number), _unescape(match[2], number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each property's first line number and its lines, joined."""
    whole: str | None = None  # What a line that goes on has so far.
    start = 0
    for number, line in enumerate(re.split("\r\n|\n|\r", text), 1):
        stripped = line.lstrip(" \t\f")
        if not whole and (not stripped or stripped[0] in "#!"):
            whole = None
            continue
        if whole is None:
            whole, start = "", number
        whole += stripped
        if (len(stripped) - len(stripped.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        if whole:
            yield start, whole
        whole = None
    if whole is not None:
        yield start, whole


def _unescape(text: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise ValueError(f"line {line}: \\u takes four hexadecimal digits")
        return _LETTERS.get(match[2], match[2] or "")

    joined = _ESCAPE.sub(character, text)
    # Java's characters are UTF-16: two escapes may be one character.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def render_properties(properties: Mapping[str, str]) -> str:
    """Write a file, a line a property, in order; ASCII only."""
    lines = []
    for key, value in properties.items():
        text = _SPECIAL.sub(_escape, value)
        text = "\\" + text if text.startswith(" ") else text
        lines.append(f"{_SPECIAL.sub(_escape, key).replace(' ', chr(92) + ' ')}={text}\n")
    return "".join(lines)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    for letter, meaning in _LETTERS.items():
        if character == meaning:
            return "\\" + letter
    if " " <= character <= "~":
        return "\\" + character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
