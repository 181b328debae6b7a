"""Whether the compiled simulator is there and may be taken, and how its modules get in."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import kraftspec
from kraftspec.cache import cache_directory
from kraftspec.fastpath import native

GROUP = "kraftspec_simulator"
LIBRARY = f"{GROUP}__mypyc"  # As mypyc calls the one that has all modules of a group.
PACKAGES = ("simulation", "reference", "fastpath", "generated")
_PREFIX = "init_"
_PROFILES = "kraftspec.reference.profiles"


def is_in_use() -> bool:
    """Whether this process runs the compiled simulator."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def require_readable(why: str) -> None:
    """Require that this process runs the readable sources.

    Raises:
        RuntimeError: it does not.
    """
    if is_in_use():
        raise RuntimeError(
            f"{why} needs the readable sources, and this process runs the compiled simulator, "
            "which would ignore it: start another process"
        )


@cache
def directory() -> Path:
    """Return where it is, or would be: the name says the sources and the interpreter."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{sys.version}, {sysconfig.get_platform()}".encode())
    for path in _sources():
        digest.update(f"{path.parent.name}/{path.name}".encode())
        digest.update(path.read_bytes())
    return cache_directory() / f"simulator-{digest.hexdigest()}"


def _sources() -> Iterator[Path]:
    package = Path(kraftspec.__file__).parent
    for each in PACKAGES:
        yield from sorted((package / each).rglob("*.py"))


def library(home: Path) -> Path:
    """Return the file that a build leaves in its directory."""
    return home / f"{LIBRARY}{sysconfig.get_config_var('EXT_SUFFIX')}"


def is_built() -> bool:
    """Whether it was built of these sources, and may be used.

    ``KRAFTSPEC_PURE=1`` and ``KRAFTSPEC_READABLE=1`` forbid it.
    """
    if native.PURE or os.environ.get("KRAFTSPEC_READABLE"):
        return False
    if not any(cache_directory().glob("simulator-*")):
        return False
    return library(directory()).exists()


def use(profile: str) -> bool:
    """Take the compiled simulator from now on, if it was built; return whether it is taken.

    It is not if this process has loaded readable modules before, or is to be pure Python, or if it
    is without this profile.
    """
    if not is_built():
        return False
    modules = _modules(directory())
    is_there = f"{_PROFILES}.{profile.replace('-', '_')}.profile" in modules
    if not is_in_use() and is_there and not any(name in sys.modules for name in modules):
        take(directory())
    return is_in_use() and is_there


def take(home: Path) -> None:
    """Take the modules of the library in a directory from now on."""
    sys.meta_path.insert(0, _Finder(_modules(home)))


def _modules(home: Path) -> dict[str, Callable[[], ModuleType]]:
    """Return what makes each module, by its name."""
    sys.path.insert(0, str(home))
    try:
        group = import_module(LIBRARY)
    finally:
        sys.path.remove(str(home))
    # From its place they derive their own, which is beside those that are not compiled.
    group.__file__ = str(Path(kraftspec.__file__).parent.with_name(library(home).name))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    makes = ctypes.PYFUNCTYPE(ctypes.py_object)
    modules: dict[str, Any] = {}
    for name in dir(group):
        if name.startswith(_PREFIX):
            address = pointer(getattr(group, name), f"{LIBRARY}.{name}".encode())
            modules[name.removeprefix(_PREFIX).replace("___", ".")] = makes(address)
    return modules


class _Loader(Loader):
    """Makes a module that is in the library."""

    def __init__(self, make: Callable[[], ModuleType]) -> None:
        self._make = make

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make it, and run what it does when it is imported."""
        return self._make()

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


class _Finder(MetaPathFinder):
    """Finds the modules of the library, before the readable ones of the same names."""

    def __init__(self, modules: dict[str, Callable[[], ModuleType]]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the place of the source, and who makes the module of it."""
        make = self._modules.get(fullname)
        spec = None if make is None else PathFinder.find_spec(fullname, path)
        if make is None or spec is None or spec.origin is None:
            return None
        return spec_from_file_location(
            fullname,
            spec.origin,
            loader=_Loader(make),
            submodule_search_locations=spec.submodule_search_locations,
        )
