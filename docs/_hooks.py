"""Build hooks of the documentation: tables that are made from the code they describe."""

from __future__ import annotations

from typing import Any

RULES_MARK = "<!-- the rules -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the rule table in the place of its mark."""
    return markdown.replace(RULES_MARK, rules_table()) if RULES_MARK in markdown else markdown


def rules_table() -> str:
    """Return every rule that ``kraftspec spec check`` holds, in the order of the code."""
    from kraftspec.codegen.diagnostics import RULES  # noqa: PLC0415 - pages without it build alone

    rows = (f"| `{rule}` | {_cell(sentence)} |" for rule, sentence in RULES.items())
    return "\n".join(["| rule | says |", "| --- | --- |", *rows])


def _cell(sentence: str) -> str:
    for character in "\\|<[*_`":
        sentence = sentence.replace(character, f"\\{character}")
    return sentence
