"""What a profile is stands in its own package: nothing else asks which profile it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftspec.reference.profiles import KAFKA, PROFILE_NAMES, parts_of, profile_named
from kraftspec.reference.profiles.common.admin import AdminPart
from kraftspec.reference.profiles.common.node import NodePart
from kraftspec.simulation.protocols import protocol_of

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    "reference",
    "simulation",
    "interop",
    "conformance",
    "pipeline",
    "benchmarks",
    "src/kraftspec/cli",
)
OWN = "reference/profiles/"
DRAFTS = frozenset(PROFILE_NAMES) - {KAFKA}


def is_draft(node: ast.expr | None) -> bool:
    """Whether an expression is a draft's name, or a collection that has one."""
    names = (
        [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)] if node else []
    )
    return not DRAFTS.isdisjoint(name for name in names if isinstance(name, str))


def is_profile(node: ast.expr) -> bool:
    """Whether an expression is called a profile: ``profile``, ``its.profile.name``."""
    match node:
        case ast.Attribute(value=value, attr="name"):
            return is_profile(value)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in ("profile", "profile_name")
    return False


def is_fixed(node: ast.expr) -> bool:
    """Whether an expression is a text or a constant; the list of all profiles is none of either."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    name = getattr(node, "attr", getattr(node, "id", ""))
    return name.isupper() and name != "PROFILE_NAMES"


def comparisons(code: str) -> Iterator[int]:
    """Yield the lines that tell one profile from another by its name."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                by_name = any(map(is_profile, sides)) and any(map(is_fixed, sides))
                if by_name or any(map(is_draft, sides)):
                    yield node.lineno
            case ast.MatchValue(value=value) if is_draft(value):
                yield value.lineno
            case ast.Dict(keys=keys) if any(map(is_draft, keys)):
                yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        "if profile == 'kafka': pass",
        "x = 1 if self.profile.name != KAFKA else 2",
        "if name in ('kip-595', 'kip-853'): pass",
        "if frames.KAFKA == profile_name: pass",
        "TABLE = {'kip-996': 3}",
        "match name:\n    case 'kip-853':\n        pass",
    ],
)
def test_a_comparison_is_seen(code: str) -> None:
    assert list(comparisons(code))


def test_nothing_else_compares_a_name() -> None:
    seen = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(OWN):
                seen += [f"{name}:{line}" for line in comparisons(path.read_text("utf-8"))]
    assert seen == []


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_a_profile_has_all_its_parts(name: str) -> None:
    parts = parts_of(name)
    package = f"kraftspec.reference.profiles.{name.replace('-', '_')}"
    assert parts.name == parts.profile.name == profile_named(name).name == name
    assert isinstance(parts.node, NodePart)
    assert isinstance(parts.admin, AdminPart)
    for part in (parts.profile, type(parts.node)):
        assert part.__module__.startswith(f"{package}.")
    assert protocol_of(profile_named(name)).profile.name == name


def test_what_is_no_profile() -> None:
    with pytest.raises(LookupError, match="there is no profile 'zab'; there are kafka, kip-595"):
        parts_of("zab")
