"""The name of a peer out of its certificate: ``User:`` and the subject, mapped by rules.

The subject is written as Java's ``X500Principal.getName`` does (RFC 2253), since that is what
``super.users`` and ACLs name; ``ssl.principal.mapping.rules`` are those of ``SslPrincipalMapper``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANONYMOUS: Final = "User:ANONYMOUS"
USER: Final = "User:"

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = re.compile(r'[,=+<>#;"\\]')
# DER's tags of UTF8, Printable, T61, IA5, General and BMP: what Java takes for text, all as UTF-8.
_TEXT_TAGS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
_LONG_LENGTH: Final = 0x80

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_SPLITTER: Final = re.compile(rf"\s*(?:{_RULE})\s*(?:,\s*|$)", re.ASCII)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)|(\$)", re.DOTALL)


class MappingError(ValueError):
    """Rules are none, or none of them fits a subject."""


class Rule(NamedTuple):
    """One rule; without a pattern it is DEFAULT, which takes the subject as it is."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, subject: str) -> str | None:
        """Return the name of a subject, None where the rule is not for it."""
        if self.pattern is None:
            return subject
        if not self.pattern.fullmatch(subject):
            return None
        name = self.pattern.sub(self._replaced, subject)
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name

    def _replaced(self, match: re.Match[str]) -> str:
        def part(reference: re.Match[str]) -> str:
            if reference[1]:
                return reference[1]
            if reference[2] and int(reference[2]) <= match.re.groups:
                return match[int(reference[2])] or ""
            return reference[0]  # Of a group that the pattern has not: Kafka leaves it.

        return _REFERENCE.sub(part, self.replacement)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of ``ssl.principal.mapping.rules``, in order. Raises MappingError."""
    rules = []
    position = 0
    while position < len(text):
        match = _SPLITTER.match(text, position)
        if match is None:
            raise MappingError(
                f"character {position} begins no rule: write DEFAULT or "
                "RULE:pattern/replacement/, with L or U at its end"
            )
        position = match.end()
        if match[1]:
            rules.append(Rule(None, "", ""))
            continue
        try:
            rules.append(Rule(re.compile(match[2]), match[3], match[4]))
        except re.error as error:
            raise MappingError(f"{match[2]!r} is no pattern: {error}") from error
    return tuple(rules)


def principal_of(certificate: bytes | None, rules: Sequence[Rule]) -> str:
    """Return the principal of a DER certificate; anonymous where the peer showed none.

    Raises MappingError where no rule fits.
    """
    if certificate is None:
        return ANONYMOUS
    from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415 — only TLS needs it

    subject = subject_of(load_der_x509_certificate(certificate).subject.public_bytes())
    for rule in rules:
        name = rule.apply(subject)
        if name is not None:
            return USER + name
    raise MappingError(f"no rule of ssl.principal.mapping.rules fits {subject}")


def subject_of(name: bytes) -> str:
    """Return a DER name as ``X500Principal.getName`` does: RFC 2253, the last part first."""
    parts = []
    for _, part, _ in _elements(next(_elements(name))[1]):
        attributes = (attribute for _, attribute, _ in _elements(part))
        parts.append("+".join(map(_attribute, attributes)))
    return ",".join(reversed(parts))


def _attribute(attribute: bytes) -> str:
    (_, oid, _), (tag, content, whole) = _elements(attribute)
    dotted = _dotted(oid)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _TEXT_TAGS:
        return f"{keyword or dotted}=#{whole.hex()}"
    text = _ESCAPED.sub(r"\\\g<0>", content.decode("utf-8", "replace")).replace("\0", "\\00")
    stripped = text.strip(" ")
    front = len(text) - len(text.lstrip(" "))
    back = len(text) - front - len(stripped)
    return f"{keyword}=" + "\\ " * front + stripped + "\\ " * back


def _elements(der: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the elements of DER, which was parsed before: tag, content, and the whole of it."""
    at = 0
    while at < len(der):
        size, begin = der[at + 1], at + 2
        if size & _LONG_LENGTH:
            begin += size & ~_LONG_LENGTH
            size = int.from_bytes(der[at + 2 : begin], "big")
        yield der[at], der[begin : begin + size], der[at : begin + size]
        at = begin + size


def _dotted(oid: bytes) -> str:
    """Return an object identifier in numbers: seven bits a byte, the first two in one."""
    numbers = [0]
    for byte in oid:
        numbers[-1] = numbers[-1] << 7 | byte & 0x7F
        if byte < _LONG_LENGTH:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:-1]]))
