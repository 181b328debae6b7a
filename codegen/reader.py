"""Read a spec into the frozen model: fast if it is good, thorough if it is not.

A good spec costs one msgspec decode and the constructors. Only when one of these objects is it read
again by the recovering parser, JSON Schema and the rules together, which find every mistake and its
place (``kraftspec.codegen.explain``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from kraftspec.codegen.build import Builder
from kraftspec.codegen.diagnostics import Diagnostic, SpecErrors
from kraftspec.codegen.model import Message
from kraftspec.codegen.raw.message import MessageSpec

# JSON files that stand among the specs and hold no message.
NOT_MESSAGES = frozenset(
    {"message.schema.json", "errors.json", "api-keys.json", "control-records.json", "history.json"}
)
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')
decode = msgspec.json.Decoder(MessageSpec).decode


def read_message(path: Path, *, label: str | None = None, thorough: bool = False) -> Message:
    """Read the spec in a file; ``label`` names the file in diagnostics (default: its path).

    ``thorough`` puts it to JSON Schema too where the constructors have nothing to say.

    Raises ``SpecErrors`` with every mistake, a file that cannot be read being one.
    """
    label = str(path) if label is None else label
    try:
        data = path.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        diagnostic = Diagnostic(
            label, 1, 1, "file-readable", f"it cannot be read: {why}", "check the path"
        )
        raise SpecErrors([diagnostic]) from error
    message, diagnostics = check_text(data, label, thorough=thorough)
    if message is None:
        raise SpecErrors(diagnostics)
    return message


def check_text(
    text: str | bytes, label: str, *, thorough: bool = False
) -> tuple[Message | None, list[Diagnostic]]:
    """Read a spec from its text: the message and no diagnostics, or None and all of them."""
    message = None if thorough else _read_good(text)
    if message is not None:
        return message, []
    from kraftspec.codegen.explain import explain  # noqa: PLC0415 - brings in jsonschema

    return explain(text, label)


def _read_good(data: str | bytes) -> Message | None:
    """Return the message of a spec without mistakes, else None."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        if "//" in text:
            text = _COMMENT.sub(r"\1", text)
        raw = decode(text)
        json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):  # msgspec's errors and UnicodeError are ValueErrors
        return None
    builder = Builder()
    message = builder.message(raw)
    return None if builder.violations else message


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject a duplicate key, which msgspec and Kafka accept."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members
