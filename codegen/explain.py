"""Say everything that is wrong with a spec, each mistake once and at its place."""

from __future__ import annotations

from kraftspec.codegen.build import Builder
from kraftspec.codegen.diagnostics import Diagnostic
from kraftspec.codegen.model import Message


def explain(data: str | bytes, label: str) -> tuple[Message | None, list[Diagnostic]]:
    """Return None and what is wrong with the text (not written yet: the rules, without places)."""
    from kraftspec.codegen.reader import decode

    builder = Builder()
    try:
        builder.message(decode(data if isinstance(data, str) else data.decode("utf-8")))
    except ValueError as error:
        return None, [Diagnostic(label, 1, 1, "json-value", str(error), "mend it")]
    return None, [
        Diagnostic(
            label,
            1,
            1,
            breach.rule,
            f"{builder.names.get(path, '')}: {breach.message}",
            breach.mend,
        )
        for path, breach in builder.found
    ]
