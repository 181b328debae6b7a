"""What is checked: the groups and faults of ``groups.toml``, and those of embargoed findings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

FILE = "groups.toml"
FILE_OF_MUTANTS = "mutants.toml"
SAFETY = "Spec"  # What may happen. Other specifications say what must, in the end.
FILE_OF_FINDING = "model.toml"  # The same for one finding: its groups.


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A configuration of the model. Constants and replacements are TLA+ text, by their names."""

    about: str
    # Replaces what the defaults have.
    constants: dict[str, str] = {}
    # Operators of the module that others take the place of.
    replaces: dict[str, str] = {}
    module: str = "Properties"
    specification: str = SAFETY
    # A property that breaks; "" for a group in which all must hold.
    breaks: str = ""
    invariants: list[str] | None = None
    properties: list[str] | None = None
    has_symmetry: bool = True
    # Random behaviours for so long; 0: all states.
    simulate_s: float = 0.0
    # Where its modules are, if they are not here.
    directory: str = ""

    def with_constants(self, constants: dict[str, str]) -> Group:
        """Return the same group in another scope."""
        return msgspec.structs.replace(self, constants=self.constants | constants)

    def configuration(self, defaults: Defaults) -> str:
        """Return what TLC reads."""
        constants = defaults.constants | self.constants
        invariants = defaults.invariants if self.invariants is None else self.invariants
        properties = defaults.properties if self.properties is None else self.properties
        lines = [f"SPECIFICATION {self.specification}", "CHECK_DEADLOCK FALSE"]
        if self.has_symmetry:
            lines.append("SYMMETRY Symmetry")
        lines += ["CONSTANTS", *(f"    {name} = {value}" for name, value in constants.items())]
        lines += [f"    {name} <- {other}" for name, other in self.replaces.items()]
        if invariants:
            lines += ["INVARIANTS", *(f"    {name}" for name in invariants)]
        if properties:
            lines += ["PROPERTIES", *(f"    {name}" for name in properties)]
        return "\n".join(lines) + "\n"


class Defaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a group has that says nothing else."""

    constants: dict[str, str]
    invariants: list[str]
    properties: list[str]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: dict[str, Group]
    defaults: Defaults | None = None


def model_root() -> Path:
    """Return the directory of the modules."""
    return Path(str(files(__package__))).resolve()


@cache
def defaults() -> Defaults:
    """Return what all groups share."""
    shared = _read(model_root() / FILE).defaults
    assert shared is not None
    return shared


@cache
def groups() -> dict[str, Group]:
    """Return all groups and faults by name, those of embargoed findings in a checkout too."""
    return {name: group for path in _files() for name, group in _read(path).group.items()}


def _files() -> Iterator[Path]:
    yield model_root() / FILE
    yield model_root() / FILE_OF_MUTANTS
    yield from sorted((model_root().parent / "findings").glob(f"**/{FILE_OF_FINDING}"))


def _read(path: Path) -> _File:
    content = msgspec.toml.decode(path.read_bytes(), type=_File)
    if path.parent == model_root():
        return content
    there = {
        name: msgspec.structs.replace(group, directory=str(path.parent))
        for name, group in content.group.items()
    }
    return msgspec.structs.replace(content, group=there)
