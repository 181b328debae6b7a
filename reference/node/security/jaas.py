"""Login modules as ``sasl.jaas.config`` has them: ``module required name="value" …;``.

The words are those of Java's ``StreamTokenizer``, as Kafka's ``JaasConfig`` sets it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kraftspec.reference.node.settings import Login, Mechanism

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
MODULES: Final = {
    Mechanism.PLAIN: PLAIN_MODULE,
    Mechanism.SCRAM_SHA_256: SCRAM_MODULE,
    Mechanism.SCRAM_SHA_512: SCRAM_MODULE,
}
CONFIG_CHARS_MAX: Final = 1 << 20
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""
    (?P<space>  [\x00-\x20]+ | /\*.*?\*/ | /[^*\r\n][^\r\n]* | /(?=[\r\n]|$) )
    | (?P<word>  [A-Za-z_$\u00a0-\u00ff] [A-Za-z0-9_$.\-\u00a0-\u00ff]* )
    | (?P<quoted>  "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*' )
    | (?P<sign>  [=;] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_LETTERS: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


class JaasError(ValueError):
    """A login configuration is not taken; the message has none of its values."""


def parse_login(text: str) -> Login:
    """Return the one login module of a configuration. Raises JaasError."""
    if len(text) > CONFIG_CHARS_MAX:
        raise JaasError(f"it has more than {CONFIG_CHARS_MAX} characters")
    tokens = _tokens(text)
    kind, module = next(tokens)
    if kind != "word":
        raise JaasError("it does not begin with the name of a login module")
    _, flag = next(tokens)
    if flag.lower() not in _FLAGS:
        raise JaasError(f"after the login module must come one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    for kind, name in tokens:
        if (kind, name) == ("sign", ";"):
            break
        sign, (value_kind, value) = next(tokens), next(tokens)
        if kind not in ("word", "quoted") or sign != ("sign", "="):
            raise JaasError('an option is no name="value"')
        if value_kind not in ("word", "quoted"):
            raise JaasError(f"the option {name} has no value, or one that needs quotes")
        options[name] = value
    if next(tokens, ("end", ""))[0] != "end":
        raise JaasError("it has more than one login module")
    return Login(module=module, options=options)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each token; then ``end``, which an entry must not meet."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError(
                f"character {position} begins no word: names and values other than words "
                "stand in quotes"
            )
        position = match.end()
        kind = match.lastgroup or ""
        if kind == "quoted":
            yield kind, _ESCAPE.sub(_character, match[0][1:-1])
        elif kind != "space":
            yield kind, match[0]
    yield "end", ""
    raise JaasError("it ends too early: a semicolon ends a login module")


def _character(match: re.Match[str]) -> str:
    if match[1][0] in "01234567":
        return chr(int(match[1], 8))
    return _LETTERS.get(match[1], match[1])
