"""What of the simulator's sources mypyc cannot compile, or not well, beside their Structs.

Each rule names what it changes, and raises where that is not there any more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from kraftspec.simulation.compiled.rewrite import Edits, rewrite, structs_of, with_lines

# Classes that stay classes of the interpreter, with compiled methods: exceptions, those that derive
# from what is not compiled, and those that are asked for attributes without an object.
INTERPRETED: Mapping[str, tuple[str, ...]] = {
    "reference.log.directory": ("NotFormattedError",),
    "reference.log.metadata_log": ("LogFailedError",),
    "reference.log.recovery": ("CorruptMetadataLogError",),
    "reference.log.segment": ("Segment",),
    "reference.host": ("PowerLostError",),
    "reference.raft.transitions": ("FatalError",),
    "reference.raft.profile": ("Profile",),
    "reference.profiles.common.profile": ("ProfileBase",),
    "reference.profiles.kafka.profile": ("KafkaProfile",),
    "simulation.committed_log": ("Violation",),
    "simulation.rules": ("Rules",),
    "simulation.protocols.base": ("SimulatedProtocol",),
    "simulation.protocols.kafka": ("KafkaProtocol",),
}
# Classes from which some derive that are not compiled.
OPEN: Mapping[str, tuple[str, ...]] = {"simulation.replica": ("Replica",)}
# Protocols that one class fulfils here: module, the protocol, and that class with its module.
FULFILLED = (
    ("simulation.replica", "Surroundings", "simulation.world", "World"),
    ("simulation.replica", "Scheduler", "simulation.schedule", "Schedule"),
    ("simulation.core_view", "CoreView", "reference.raft.core", "Core"),
    ("reference.raft.membership", "Leadership", "reference.raft.leader", "Leader"),
)
# Enumerations: a compiled function looks a member up by name each time, and a constant not at all.
ENUMERATIONS = frozenset({"RoleName", "Cause", "ErrorCode"})
_ROOT = "kraftspec"
_KEPT = "# Here it is defined."
_SLOTS = "names_of_slots: ClassVar[tuple[str, ...]]"
_FUTURE = "from __future__ import annotations\n"


def adapted(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of modules, by name, as they are to be compiled."""
    texts = {name.removeprefix(f"{_ROOT}."): text for name, text in sources.items()}
    _give_host_to_replica(texts)
    _write_out_hooks(texts)
    for fulfilled in FULFILLED:
        _fulfil(texts, *fulfilled)
    full = {
        f"{_ROOT}.{name}": _with_constants(_without_slots(_plain(text)))
        for name, text in texts.items()
    }
    structs = structs_of(full)
    return {name: _marked(name, rewrite(name, text, structs)) for name, text in full.items()}


def _plain(text: str) -> str:
    """Let a module change copies of plain classes as it did of Structs."""
    if "msgspec.structs.replace" not in text:
        return text
    line = f"from {_ROOT}.simulation.compiled.plain import replaced\n"
    return with_lines(text.replace("msgspec.structs.replace", "replaced"), [line])


def _without_slots(text: str) -> str:
    """Leave out slots, which compiled classes have anyway; who asks for their names gets them."""
    text = re.sub(r"^    __slots__ =", f"    {_SLOTS} =", text, flags=re.MULTILINE)
    return text.replace("self.__slots__", "self.names_of_slots")


def _with_constants(text: str) -> str:
    """Say members of enumerations as constants of the module, made behind its imports."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    kinds = {one.name for node in imports for one in node.names} & ENUMERATIONS
    in_patterns = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.MatchValue)}
    edits = Edits(text)
    members = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=kind), attr=member) if kind in kinds:
                if member.isupper() and id(node) not in in_patterns:
                    members.add((kind, member))
                    edits.replace(edits.start_of(node), edits.end_of(node), f"_{kind}_{member}")
    lines = [f"_{kind}_{member}: Final = {kind}.{member}" for kind, member in sorted(members)]
    if lines:
        behind = edits.end_of(imports[-1])
        lines = ["from typing import Final", *lines]
        edits.replace(behind, behind, "".join(f"\n{line}" for line in lines))
    return edits.done()


def _replaced(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(
            f"the sources have {old!r} {text.count(old)} times, not once: see adapt.py"
        )
    return text.replace(old, new)


def _class_of(text: str, name: str) -> tuple[ast.ClassDef, str]:
    """Return a class of a module, and its text."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node, "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
    raise ValueError(f"the sources have no class {name}: see adapt.py")


def _give_host_to_replica(texts: dict[str, str]) -> None:
    """Let OwnReplica derive from one class: a Host that derives from Replica."""
    host = texts["reference.host"]
    _, body = _class_of(host, "Host")
    body = _replaced(body, "class Host:", "class Host(Replica):")
    own = texts["simulation.own"]
    own = _replaced(
        own, "import Host, PowerLostError\n",
        "import NO_LIMIT, PowerLostError, Wait\n"
        "from collections import deque\n"
        "from collections.abc import Coroutine, Iterable, Iterator\n"
        "from typing import ClassVar\n",
    )  # fmt: skip
    own = _replaced(own, "class OwnReplica(Host, Replica):", f"{body}\n\n\nclass OwnReplica(Host):")
    texts["simulation.own"] = _replaced(
        own, "    clock_us = Replica.clock_us\n",
        "    def clock_us(self) -> int:\n        return Replica.clock_us(self)\n",
    )  # fmt: skip
    own = texts["simulation.own"]
    texts["simulation.own"] = _replaced(
        own, "    core: Core\n    can_move", "    can_move"
    ).replace("    core: Core\n    storage: Storage\n", "    storage: Storage\n")


def _write_out_hooks(texts: dict[str, str]) -> None:
    """Give Hooks a method for each hook, in the place of what it makes when it is made."""
    name = "simulation.invariants.base"
    node, _ = _class_of(texts[name], "Invariant")
    _, hooks = _class_of(texts[name], "Hooks")
    methods = [
        one
        for one in node.body
        if isinstance(one, ast.FunctionDef) and one.name != "fail" and not one.name.startswith("_")
        if not one.decorator_list
    ]
    lines = [
        "class Hooks:",
        "    def __init__(",
        "        self, invariants: Iterable[Invariant], committed_log: CommittedLog",
        "    ) -> None:",
        "        self.invariants = list(invariants)",
        "        for invariant in self.invariants:",
        "            invariant.committed_log = committed_log",
    ]
    lines += [
        f"        self._{one.name}: list[Invariant] = _those_with(self.invariants, {one.name!r})"
        for one in methods
    ]
    for one in methods:
        arguments = ", ".join(argument.arg for argument in one.args.args[1:])
        lines += [
            f"    def {one.name}({ast.unparse(one.args)}) -> None:",
            f"        for one in self._{one.name}:",
            f"            one.{one.name}({arguments})",
        ]
    lines += [
        "",
        "def _those_with(invariants: list[Invariant], name: str) -> list[Invariant]:",
        "    base = getattr(Invariant, name)",
        "    return [one for one in invariants if getattr(type(one), name) is not base]",
    ]
    texts[name] = _replaced(texts[name], hooks, "\n".join(lines))


def _fulfil(texts: dict[str, str], module: str, protocol: str, other: str, name: str) -> None:
    """Name the class that fulfils a protocol wherever the protocol is named, but for itself."""
    _, definition = _class_of(texts[module], protocol)
    texts[module] = _replaced(texts[module], definition, _KEPT)
    for each, text in texts.items():
        if not re.search(rf"\b{protocol}\b", text):
            continue
        lines = [
            "from typing import TYPE_CHECKING\n",
            "if TYPE_CHECKING:\n",
            f"    from {_ROOT}.{other} import {name}\n",
        ]
        changed = _without_import(text, protocol)
        imports = rf"import [^\n]*\b{name}\b|^    {name},$"
        is_there = each == other or re.search(imports, changed, re.MULTILINE)
        changed = re.sub(rf"(?<![\w.]){protocol}\b(?!`)", name, changed)
        texts[each] = changed if is_there else with_lines(changed, lines)
    texts[module] = _replaced(texts[module], _KEPT, definition)


def _without_import(text: str, name: str) -> str:
    """Return a text that does not import a name."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names):
            rest = ", ".join(one.name for one in node.names if one.name != name)
            margin = " " * node.col_offset
            new = f"{margin}from {node.module} import {rest}\n" if rest else f"{margin}pass\n"
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [
                new, *["\n"] * (node.end_lineno - node.lineno)
            ]  # fmt: skip
    return "".join(lines)


def _marked(module: str, text: str) -> str:
    """Return a module's text with what mypyc has to know of its classes."""
    name = module.removeprefix(f"{_ROOT}.")
    for classes, mark in (
        (INTERPRETED, "native_class=False"),
        (OPEN, "allow_interpreted_subclasses=True"),
    ):
        for each in classes.get(name, ()):
            text, count = re.subn(
                rf"^class {each}\b", f"@mypyc_attr({mark})\nclass {each}", text, flags=re.MULTILINE
            )
            if count != 1:
                raise ValueError(f"{module} has no class {each}: see adapt.py")
    imports = ["from mypy_extensions import mypyc_attr\n"] if "@mypyc_attr" in text else []
    if re.search(r"^    \w+: ClassVar", text, re.MULTILINE):
        imports.append("from typing import ClassVar\n")
    return with_lines(text, imports)
