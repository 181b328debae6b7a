"""Transcripts as files: commands, what came out beneath each, and what had to come out.

A line that begins with two spaces is output, ``#`` is a comment, anything else a command. An
``# expect:`` speaks of the next command: each needs a line of its output that has the words of the
expectation, in order; the lines come in the order of the expectations. ``# expect: not ...`` wants
no such line, ``# expect: nothing`` no output at all.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from tests.reference.transcripts.cluster import LONG_STORY, Cluster, ScriptError

EXPECT = "# expect: "
SOURCE = "# Source: "
INDENT = "  "


class UnexpectedError(AssertionError):
    """A command did not do what the transcript's author wrote down before it was run."""


def has_words(line: str, expected: list[str]) -> bool:
    """Whether a line has these words, in this order, perhaps with others between.

    A colon or a comma that follows a word is not part of it; ``error=`` is met by any error.
    """
    words = iter(line.split())
    return all(any(is_word(word, other) for other in words) for word in expected)


def is_word(expected: str, word: str) -> bool:
    """Whether a word of a line is the one that is expected."""
    if expected.endswith("="):
        return word.startswith(expected)
    return word.rstrip(":,") == expected.rstrip(":,")


def check(expectations: list[str], output: list[str]) -> str | None:
    """Return the first expectation that the output of a command does not meet."""
    rest = list(output)
    for expectation in expectations:
        if expectation == "nothing":
            if output:
                return expectation
        elif expectation.startswith("not "):
            expected = expectation.removeprefix("not ").split()
            if any(has_words(line, expected) for line in output):
                return expectation
        else:
            expected = expectation.split()
            index = next((i for i, line in enumerate(rest) if has_words(line, expected)), None)
            if index is None:
                return expectation
            del rest[: index + 1]
    return None


def cannot_fail(command: str, expectations: list[str]) -> list[str]:
    """Return expectations of what a command does not tell: ``not`` of these is always met.

    After ``quiet`` only what nodes are is shown, after ``brief`` not what goes on all the time.
    """
    verb = command.split(maxsplit=1)[0]
    return [
        expectation
        for expectation in expectations
        if expectation.startswith("not ")
        and (
            (verb == "quiet" and "is" not in expectation.split())
            or (verb == "brief" and not LONG_STORY.isdisjoint(expectation.split()))
        )
    ]


def play(text: str) -> str:
    """Play a transcript; return it with the output as it came out now.

    Raises UnexpectedError where an expectation is not met, and ScriptError for a bad command, with
    the number of the line.
    """
    cluster = Cluster()
    lines: list[str] = []
    expectations: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(INDENT):
            continue
        lines.append(line)
        if line.startswith(EXPECT):
            expectations.append(line.removeprefix(EXPECT).strip())
        elif line and not line.startswith("#"):
            vain = cannot_fail(line, expectations)
            if vain:
                raise ScriptError(f"line {number}: {line}: this cannot fail: {vain}")
            try:
                output = cluster.run(line)
            except (ScriptError, ValueError, KeyError, AssertionError) as error:
                raise ScriptError(f"line {number}: {line}: {error!r}") from error
            failed = check(expectations, output)
            if failed is not None:
                shown = "\n".join(INDENT + out for out in output) or "  (nothing)"
                raise UnexpectedError(f"line {number}: {line}\n{shown}\n  was expected: {failed}")
            expectations = []
            lines += [INDENT + out for out in output]
    if expectations:
        raise ScriptError(f"no command follows: {expectations}")
    return "\n".join(lines) + "\n"


def faults(text: str) -> list[str]:
    """Return what every transcript has to have, and this one lacks."""
    lines = text.splitlines()
    problems = []
    if not lines or not lines[0].startswith("# "):
        problems.append("it begins with a comment: what it shows, in words")
    if not any(line.startswith(SOURCE) for line in lines):
        problems.append(f"it has no {SOURCE.strip()} line: which document says so")
    if not any(line.startswith(EXPECT) for line in lines):
        problems.append("it expects nothing: what has to come out is written before it is run")
    return problems


def difference(path: Path, then: str, now: str) -> str:
    """Return how the output differs from what the file has."""
    diff = difflib.unified_diff(
        then.splitlines(), now.splitlines(), f"{path.name} (kept)", f"{path.name} (now)",
        lineterm="", n=2,
    )  # fmt: skip
    return "\n".join(diff)
