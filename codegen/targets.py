"""The languages that codecs are rendered in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kraftspec.codegen import python_target, typescript_target
from kraftspec.codegen.model import Message


@dataclass(frozen=True, slots=True)
class Target:
    """What renders a set's messages, each function to a dictionary of file name → text.

    Attributes:
        comment: what begins a comment of a line, and so line 1 of each file.
        suffix: of its files.
        render_message: (message, source).
        render_package: (messages, package, source, title): the set's own files.
        render_enums: (source, title, enums): the text of a module of numbers.
        render_root: what the directory around all sets needs for itself.
        render_runtime: what generated modules import, ``runtime/NAME`` beside the sets.
        below: directories of a set that hold its modules too.
        notes: whether a set's directory may hold notes of what was rendered (``rendered``).
    """

    comment: str
    suffix: str
    render_message: Callable[[Message, str], dict[str, str]]
    render_package: Callable[[Iterable[Message], str, str, str], dict[str, str]]
    render_enums: Callable[[str, str, Iterable[Mapping[str, Any]]], str]
    render_root: Callable[[], dict[str, str]] = dict
    render_runtime: Callable[[], dict[str, str]] = dict
    below: tuple[str, ...] = ()
    notes: bool = False


TARGETS = {
    "python": Target(
        "#",
        "py",
        python_target.render_message,
        python_target.render_package,
        python_target.render_enums,
        python_target.render_root,
        below=("pure",),
        notes=True,
    ),
    "typescript": Target(
        typescript_target.COMMENT,
        "ts",
        typescript_target.render_message,
        typescript_target.render_package,
        typescript_target.render_enums,
        render_runtime=typescript_target.render_runtime,
    ),
}
PYTHON = TARGETS["python"]
