r"""Paths of a tree, with globs: ``/image/topics/byName/ord*/[id]`` and the like, as Kafka has them.

``*`` and ``?`` and ``{one,other}`` match within a name; ``.`` and ``..`` are resolved before that;
a backslash takes the next character as it is, so that ``a\/b`` is the name ``a/b``. (Kafka's shell
cannot reach names with slashes.)

Sources: ``org.apache.kafka.shell.glob``, ``org.apache.kafka.shell.command.CommandUtils``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from kraftspec.reference.tools.shell.tree import Directory, Node

_SPECIAL: Final = re.compile(r"[\\*?{}/]")
_PARTS: Final = re.compile(r"(?:\\.|[^/\\]|\\$)+", re.DOTALL)
_TOKENS: Final = re.compile(r"\\.|.", re.DOTALL)
# Behind a letter that stands for itself; "*" and "?" alone match others, a list one of its globs.
_LITERAL: Final = "="
_Glob = list["str | list[_Glob]"]


class Found(NamedTuple):
    """A node, and the names that lead to it from the root."""

    names: tuple[str, ...]
    node: Node

    @property
    def path(self) -> str:
        """Its absolute path, escaped so that it can be typed."""
        return path_of(self.names)


def escape(name: str) -> str:
    """Return a name as a path has it; the empty name, which no path has, stays empty."""
    if name in (".", ".."):
        return f"\\{name}"
    return _SPECIAL.sub(r"\\\g<0>", name)


def path_of(names: tuple[str, ...]) -> str:
    """Return the absolute path of names."""
    return "/" + "/".join(map(escape, names))


def parts_of(path: str, working: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a path from the root on, still with globs and backslashes."""
    parts: list[str] = [] if path.startswith("/") else [escape(name) for name in working]
    for part in _PARTS.findall(path):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return tuple(parts)


def find(root: Directory, path: str, working: tuple[str, ...]) -> Iterator[Found]:
    """Yield the nodes that a path matches, by name; none where there is none."""
    yield from _match(root, parts_of(path, working), ())


def _match(node: Node, parts: tuple[str, ...], names: tuple[str, ...]) -> Iterator[Found]:
    if not parts:
        yield Found(names, node)
        return
    if not isinstance(node, Directory):
        return
    part, rest = parts[0], parts[1:]
    pattern = _pattern(part)
    if isinstance(pattern, str):
        # As it stands first: names of quotas have backslashes of their own.
        for name in dict.fromkeys((part, pattern)):
            child = node.child(name)
            if child is not None:
                yield from _match(child, rest, (*names, name))
                return
        return
    for name in node.names():
        if _matches(pattern, name):
            child = node.child(name)
            if child is not None:
                yield from _match(child, rest, (*names, name))


@lru_cache(maxsize=256)
def _pattern(part: str) -> str | _Glob:
    """Return what a part of a path matches: one name, or those of a glob.

    Braces that do not close, or stand within braces, are letters.
    """
    pattern: _Glob = []
    group: list[_Glob] = []
    for token in _TOKENS.findall(part):
        glob = group[-1] if group else pattern
        if token == "{":
            if group:
                return _plain(part)
            group = [[]]
        elif token == "}" and group:
            pattern.append(group)
            group = []
        elif token == "," and group:
            group.append([])
        else:
            glob.append(token if token in ("*", "?") else token[-1:] + _LITERAL)
    if group:
        return _plain(part)
    is_literal = all(isinstance(each, str) and each.endswith(_LITERAL) for each in pattern)
    return _plain(part) if is_literal else pattern


def _plain(part: str) -> str:
    return "".join(token[-1] for token in _TOKENS.findall(part))


def _matches(glob: _Glob, name: str) -> bool:
    return len(name) in _ends(glob, name, {0})


def _ends(glob: _Glob, name: str, starts: set[int]) -> set[int]:
    """Return where a glob may end in a name that it begins to match at ``starts``.

    All ends at once: no glob takes longer than its length times that of the name.
    """
    for each in glob:
        if not starts:
            break
        if isinstance(each, list):
            starts = set().union(*(_ends(one, name, starts) for one in each))
        elif each == "*":
            starts = set(range(min(starts), len(name) + 1))
        elif each == "?":
            starts = {at + 1 for at in starts if at < len(name)}
        else:
            starts = {at + 1 for at in starts if name[at : at + 1] == each[0]}
    return starts
