"""Sources as mypyc wants them: what it cannot compile well, or not at all, named in other words.

The readable sources stay as they are. What is changed here changes what a class is made of, and
never what it does:

* a ``msgspec.Struct`` becomes a plain class with the same constructor, comparison and hash;
* a class whose methods are replaced, or that derives from what is compiled elsewhere, stays a class
  of the interpreter, with compiled methods;
* `OwnReplica`, which has two bases, gets the methods of one of them as a class between.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple


class Field(NamedTuple):
    """A field of a Struct, as the source has it."""

    name: str
    annotation: str
    default: str | None
    module: str  # Where it was first named: what its annotation names can be imported from there.


class Struct(NamedTuple):
    """A Struct: its fields, those of its bases first, and what its class line says."""

    fields: tuple[Field, ...]
    is_frozen: bool
    is_acyclic: bool  # The collector does not look at it (``gc=False``).
    keyword_only: frozenset[str]


class Edits:
    """Changes of a text, by the places that its syntax tree names."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._changes: list[tuple[int, int, bytes]] = []

    def at(self, line: int, column: int) -> int:
        """Return a place, of a line counted from 1."""
        return self._starts[line - 1] + column

    def start_of(self, node: ast.expr | ast.stmt) -> int:
        """Return the place where a node begins."""
        return self.at(node.lineno, node.col_offset)

    def end_of(self, node: ast.expr | ast.stmt) -> int:
        """Return the place behind a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.end_lineno, node.end_col_offset)

    def replace(self, start: int, end: int, text: str) -> None:
        """Put a text in the place of what is there."""
        self._changes.append((start, end, text.encode()))

    def done(self) -> str:
        """Return the text with all changes."""
        data = self._data
        for start, end, new in sorted(self._changes, reverse=True):
            data = data[:start] + new + data[end:]
        return data.decode()


def struct_classes(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, str]]:
    """Yield the classes of a module that have bases, and the name of the first."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.bases:
            yield node, ast.unparse(node.bases[0])


def structs_of(sources: Mapping[str, str]) -> dict[str, Struct]:
    """Return all Structs of modules, by module and name. Bases are known by their names alone."""
    structs: dict[str, Struct] = {}
    by_name: dict[str, Struct] = {}
    waiting = [
        (module, node, base)
        for module, text in sources.items()
        for node, base in struct_classes(ast.parse(text))
    ]
    while True:
        later = []
        for module, node, base in waiting:
            if base == "msgspec.Struct" or base in by_name:
                struct = _struct(module, node, by_name.get(base))
                structs[f"{module}.{node.name}"] = by_name[node.name] = struct
            else:
                later.append((module, node, base))
        if len(later) == len(waiting):
            return structs
        waiting = later


def _struct(module: str, node: ast.ClassDef, base: Struct | None) -> Struct:
    options = {one.arg: ast.literal_eval(one.value) for one in node.keywords}
    unknown = set(options) - {"frozen", "gc", "kw_only", "array_like"}
    if unknown:
        raise ValueError(f"{node.name}: no twin is known of {unknown}")
    own = tuple(
        Field(
            one.target.id,
            ast.unparse(one.annotation),
            None if one.value is None else ast.unparse(one.value),
            module,
        )
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    )  # fmt: skip
    named = {field.name for field in own}
    inherited = tuple(f for f in base.fields if f.name not in named) if base else ()
    only = base.keyword_only - named if base else frozenset()
    if options.get("kw_only"):
        only |= named
    is_frozen = bool(options.get("frozen")) or (base is not None and base.is_frozen)
    return Struct(inherited + own, is_frozen, options.get("gc") is False, frozenset(only))


def plain_class(edits: Edits, node: ast.ClassDef, base: str, struct: Struct) -> None:
    """Make a plain class of a Struct."""
    head_end = node.body[0].lineno
    start = edits.start_of(node)
    bases = "" if base == "msgspec.Struct" else f"({base})"
    mark = "@mypyc_attr(acyclic=True, free_list_len=1)\n" if struct.is_acyclic else ""
    edits.replace(start, edits.at(head_end, 0), f"{mark}class {node.name}{bases}:\n")
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and one.value is not None:
            edits.replace(edits.end_of(one.annotation), edits.end_of(one), "")
    last = node.body[-1]
    assert last.end_lineno is not None
    at = edits.at(last.end_lineno + 1, 0)
    edits.replace(at, at, "".join(f"    {line}\n" for line in _methods(node.name, struct)))


def _methods(name: str, struct: Struct) -> Iterator[str]:
    fields = struct.fields
    names = tuple(field.name for field in fields)
    yield f"__struct_fields__: ClassVar[tuple[str, ...]] = {names!r}"
    by_place = [field for field in fields if field.name not in struct.keyword_only]
    by_name = [field for field in fields if field.name in struct.keyword_only]
    arguments = [_argument(field) for field in by_place]
    if by_name:
        arguments += ["*", *(_argument(field) for field in by_name)]
    yield f"def __init__({', '.join(['self', *arguments])}) -> None:"
    for field in fields:
        value = f"{field.default} if {field.name} is None else {field.name}"
        yield f"    self.{field.name} = {value if _is_made_anew(field) else field.name}"
    if not fields:
        yield "    pass"
    yield "def __eq__(self, other: object) -> bool:"
    yield f"    if other.__class__ is not {name}:"
    yield "        return NotImplemented"
    if fields:
        yield f"    assert isinstance(other, {name})"
    same = " and ".join(f"self.{each} == other.{each}" for each in names)
    yield f"    return {same or 'True'}"
    if struct.is_frozen:
        yield "def __hash__(self) -> int:"
        yield f"    return hash(({''.join(f'self.{each}, ' for each in names)}))"
    shown = ", ".join(f"{each}={{self.{each}!r}}" for each in names)
    yield "def __repr__(self) -> str:"
    yield f'    return f"{name}({shown})"' if names else f'    return "{name}()"'


def _argument(field: Field) -> str:
    if _is_made_anew(field):
        return f"{field.name}: {field.annotation} | None = None"
    default = "" if field.default is None else f" = {field.default}"
    return f"{field.name}: {field.annotation}{default}"


def _is_made_anew(field: Field) -> bool:
    """Whether each object gets a default of its own: an empty list, dict or set."""
    return field.default in ("[]", "{}", "set()")


def rewrite(module: str, text: str, structs: Mapping[str, Struct]) -> str:
    """Return a module's text with plain classes in the place of its Structs."""
    tree = ast.parse(text)
    edits = Edits(text)
    known = _names_of(tree) | set(dir(builtins))
    imports: dict[str, str] = {}
    for node, base in struct_classes(tree):
        struct = structs.get(f"{module}.{node.name}")
        if struct is not None:
            plain_class(edits, node, base, struct)
            for field in struct.fields:
                for name in _named(f"({field.annotation}, {field.default})"):
                    if name not in known:
                        imports[name] = field.module
    lines = [f"from {module} import {name}\n" for name, module in imports.items()]
    return with_lines(edits.done(), lines)


def with_lines(text: str, lines: Iterable[str]) -> str:
    """Return a module's text with lines behind its ``from __future__``."""
    lines = list(lines)
    if not lines:
        return text
    first = "from __future__ import annotations\n"
    before, _, after = text.partition(first)
    return f"{before}{first}{''.join(lines)}{after}"


def _named(expression: str) -> list[str]:
    return [one.id for one in ast.walk(ast.parse(expression)) if isinstance(one, ast.Name)]


def _names_of(tree: ast.Module) -> set[str]:
    """Return what a module defines or imports."""
    defined = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {(one.asname or one.name).partition(".")[0] for one in node.names}
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
    return defined
