"""What makes a trace the same everywhere, held by reading the code that a trace comes from.

A run in another process or version of Python shows a difference only if it happens to meet it
(``test_simulation.py`` does that); the constructs that could make one are few, and seen here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kraftspec

ROOT = Path(kraftspec.__file__).parent
PACKAGES = ("reference/raft", "reference/log", "reference/profiles", "simulation")
# A profile's parts of the node and of the admin client run beside a real clock and real sockets.
MODULES = [
    *sorted(
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if not (package == "reference/profiles" and path.name in ("node.py", "admin.py"))
    ),
    ROOT / "reference/host.py",
    ROOT / "reference/storage.py",
]
# Floating point that is libm's, bytes that a library compressed, clocks and chance of the machine.
FORBIDDEN = {
    *("math", "cmath", "statistics", "numpy", "zlib", "gzip", "bz2", "lzma", "isal", "cramjam"),
    *("zstandard", "lz4", "snappy", "time", "datetime", "uuid", "secrets", "asyncio", "threading"),
}
# Who measures processor time, or shows what happened, is no part of what happens. A lock that
# nobody else wants changes nothing.
ALLOWED = {
    "run.py": {"time"}, "measure.py": {"time"}, "minimise.py": {"time"}, "table.py": {"statistics"},
    "cores.py": {"time"}, "against_model.py": {"time"}, "outside.py": {"time", "threading"},
    "observed.py": {"time"},
    "metadata_log.py": {"threading"}, "files.py": {"threading"},
}  # fmt: skip
COPIES = {"list", "tuple", "enumerate", "iter", "map", "filter", "zip", "reversed", "dict"}


def _is_set(node: ast.expr | None, names: set[str]) -> bool:
    """Whether an expression is a set, as far as this module says."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Subscript(value=ast.Name(id="set" | "frozenset"))):
            return True
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            return _is_set(left, names)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in names
    return False


def _is_set_type(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith(("set[", "frozenset[", "Set[", "AbstractSet[")) or text == "set"


def _names_of_sets(tree: ast.Module) -> set[str]:
    """Return the variables and attributes that hold sets, by assignment or by annotation."""
    names: set[str] = set()
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign) and _is_set(node.value, names):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
            targets = [node.target]
        elif isinstance(node, ast.arg) and node.annotation and _is_set_type(node.annotation):
            names.add(node.arg)
        for target in targets:
            match target:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    names.add(name)
    return names


def orders_of_sets(source: str) -> Iterator[str]:
    """Yield where something takes the elements of a set in the order in which they lie."""
    tree = ast.parse(source)
    names = _names_of_sets(tree)
    for node in ast.walk(tree):
        taken: list[ast.expr] = []
        match node:
            case ast.For(iter=iterable) | ast.comprehension(iter=iterable):
                taken = [iterable]
            case ast.Starred(value=value):
                taken = [value]
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in COPIES:
                taken = arguments
            case ast.Call(func=ast.Attribute(attr="join" | "extend" | "fromkeys"), args=arguments):
                taken = arguments
            case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[]):
                taken = [value]
        for expression in taken:
            if _is_set(expression, names):
                yield f"line {expression.lineno}: {ast.unparse(node)[:80]}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_order_of_a_set_gets_into_a_trace(path: Path) -> None:
    assert not list(orders_of_sets(path.read_text("utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        "for x in {1, 2}: pass",
        "seen = set()\nfor x in seen: pass",
        "class A:\n  def f(self):\n    self.seen: set[int] = set()\n    return list(self.seen)",
        "def f(names: set[str]): return ','.join(names)",
        "seen = {x for x in y}\nz = [x for x in seen]",
        "seen = frozenset(y)\nz = (*seen,)",
        "seen = set(y)\nz = seen.pop()",
        "for x in set(a) | set(b): pass",
    ],
)
def test_an_order_of_a_set_is_seen(source: str) -> None:
    assert list(orders_of_sets(source))


@pytest.mark.parametrize(
    "source",
    ["for x in sorted({1, 2}): pass", "s = set(y)\nz = 1 in s", "s = {1: 2}\nfor x in s: pass"],
)
def test_a_set_may_be_asked_and_sorted(source: str) -> None:
    assert not list(orders_of_sets(source))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_of_the_machine_gets_into_a_trace(path: Path) -> None:
    allowed = ALLOWED.get(path.name, set())
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        modules: list[str] = []
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
            if node.module == "random":
                assert [alias.name for alias in node.names] == ["Random"], path
        elif isinstance(node, ast.Attribute):
            # Of random.Random only what every version of Python draws alike.
            assert node.attr not in {
                *("randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform"),
                *("gauss", "expovariate", "triangular", "randbytes", "urandom"),
            }, where
        for module in modules:
            top = module.partition(".")[0]
            assert top not in FORBIDDEN - allowed, f"{where} imports {module}"
            assert top != "random" or isinstance(node, ast.ImportFrom), where
