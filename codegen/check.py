"""Check spec files, ``kraftspec spec check``: every mistake of every file, each at its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kraftspec.codegen.diagnostics import Diagnostic, SpecErrors
from kraftspec.codegen.jsonc import parse
from kraftspec.codegen.plan import module_name
from kraftspec.codegen.reader import NOT_MESSAGES, read_message
from kraftspec.specs import specs_root

# Files that upstream calls otherwise than the message in them.
UPSTREAM_NAMES = {"ZkMigrationRecord": "ZkMigrationStateRecord"}

_BARE_NULL = re.compile(r'"default"\s*:\s*null\b')


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found: how many files were read, and all mistakes by path and place.

    ``notes`` are what is allowed, and seldom meant.
    """

    files: int
    diagnostics: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is nothing to mend."""
        return not self.diagnostics

    @property
    def lines(self) -> list[str]:
        """All for people, ``path:line:col: message [rule]; mend``, one a line; notes come last."""
        return [str(one) for one in (*self.diagnostics, *self.notes)]

    def to_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "files": self.files,
            "ok": self.ok,
            "diagnostics": [asdict(diagnostic) for diagnostic in self.diagnostics],
            "notes": [asdict(note) for note in self.notes],
        }


def check_paths(paths: Iterable[Path] = ()) -> CheckReport:
    """Check files, and the specs below directories; without paths, all of the project's specs.

    Never raises: a path that cannot be read is a mistake like others.
    """
    files: dict[Path, Path] = {}  # file -> the directory that makes its set
    diagnostics: list[Diagnostic] = []
    notes: list[Diagnostic] = []
    for path in tuple(paths) or (specs_root(),):
        below = spec_files(path)
        if not below:
            text, mend = "the directory holds no specs (*.json)", "check the path"
            diagnostics.append(Diagnostic(_label(path), 1, 1, "file-readable", text, mend))
        for file in below:
            files.setdefault(file, _set_of(file, path))
    named: dict[Path, list[tuple[Path, str]]] = {}  # by set
    for file, around in sorted(files.items()):
        label = _label(file)
        notes += _bare_nulls(file, label)
        try:
            name = read_message(file, label=label, thorough=True).name
        except SpecErrors as errors:
            diagnostics += errors.diagnostics
            name = _name_of(file)
        if not name:
            continue
        diagnostics += _file_mistakes(file, label, name)
        named.setdefault(around, []).append((file, name))
    diagnostics += (mistake for messages in named.values() for mistake in name_mistakes(messages))
    return CheckReport(len(files), tuple(sorted(diagnostics)), tuple(notes))


def name_mistakes(messages: Iterable[tuple[Path, str]]) -> Iterator[Diagnostic]:
    """Yield a mistake for each message of a set that is in one module with an earlier one."""
    modules: dict[str, tuple[Path, str]] = {}
    for file, name in messages:
        first, other = modules.setdefault(module_name(name), (file, name))
        if first != file:
            text = f'message "{name}" is declared in {_label(first)} too'
            mend = "keep one of the two"
            if name != other:
                text = f'message "{name}" would be in one module with "{other}" of {_label(first)}'
                mend = "rename one of the two"
            yield Diagnostic(_label(file), 1, 1, "message-name-unique", text, mend)


def spec_files(path: Path) -> list[Path]:
    """Return the specs below a directory, in order of name; a file gives itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*.json") if file.name not in NOT_MESSAGES)


def _name_of(file: Path) -> str:
    """Return the name of the message in a file with mistakes, if that can be seen."""
    try:
        root = parse(file.read_text("utf-8", "replace")).root
    except OSError:
        return ""
    spec = root.plain() if root is not None else None
    name = spec.get("name") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def _bare_nulls(file: Path, label: str) -> Iterator[Diagnostic]:
    """Yield a note for each ``"default": null``, which a reader takes for ``"null"``."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return
    if not _BARE_NULL.search(text):  # No file of Kafka's has one, and places take time to find.
        return
    document = parse(text, label)
    nodes = [document.root] if document.root is not None else []
    while nodes:
        node = nodes.pop()
        nodes += node.items or ()
        for key, (_, value) in (node.members or {}).items():
            nodes.append(value)
            if key == "default" and document.text[value.start : value.end] == "null":
                what = "a default of null without quotes is as if there were no default"
                mend = 'write "null" if null is meant, else take it out'
                yield Diagnostic(label, *document.position(value.start), "bare-null", what, mend)


def _file_mistakes(file: Path, label: str, name: str) -> list[Diagnostic]:
    if UPSTREAM_NAMES.get(file.stem, file.stem) == name:
        return []
    text = f'the file is called {file.name}, the message in it "{name}"'
    mend = f"rename the file to {name}.json"
    return [Diagnostic(label, 1, 1, "file-name", text, mend)]


def _set_of(file: Path, path: Path) -> Path:
    """Return the directory in which message names are unique: a set of ours, or what was named."""
    try:
        below = file.resolve().relative_to(specs_root().resolve())
    except ValueError:
        return path if path.is_dir() else file.parent
    return specs_root() / below.parts[0]


def _label(file: Path) -> str:
    """Return the path as a person would type it here."""
    try:
        return file.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.as_posix()
