"""Build hooks of the documentation: tables made from code, and what the copy buttons give."""

from __future__ import annotations

import re
from html import escape
from typing import Any

RULES_MARK = "<!-- the rules -->"
SESSION = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
SESSION_HTML = '<div class="language-console highlight">'
TYPED = re.compile(r"^[$>] (.*\n)", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the rule table in the place of its mark."""
    return markdown.replace(RULES_MARK, rules_table()) if RULES_MARK in markdown else markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Let a session's copy button give its commands, without prompts and what they print."""
    sessions = [session[0] for session in SESSION.finditer(page.markdown)]
    before, *blocks = html.split(SESSION_HTML)
    if len(blocks) != len(sessions):
        raise ValueError(f"{page.file.src_uri} has {len(sessions)} sessions, {len(blocks)} shown")
    shown = (
        f'{SESSION_HTML[:-1]} data-copy="{escape("".join(TYPED.findall(session)))}">{block}'
        for session, block in zip(sessions, blocks, strict=True)
    )
    return before + "".join(shown)


def rules_table() -> str:
    """Return every rule that ``kraftspec spec check`` holds, in the order of the code."""
    from kraftspec.codegen.diagnostics import RULES  # noqa: PLC0415 - pages without it build alone

    rows = (f"| `{rule}` | {_cell(sentence)} |" for rule, sentence in RULES.items())
    return "\n".join(["| rule | says |", "| --- | --- |", *rows])


def _cell(sentence: str) -> str:
    for character in "\\|<[*_`":
        sentence = sentence.replace(character, f"\\{character}")
    return sentence
