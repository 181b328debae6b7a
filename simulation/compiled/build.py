"""Compile the simulator: copies of its sources, adapted, and one library of all of them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from contextlib import chdir
from copy import copy
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kraftspec
from kraftspec.cache import locked
from kraftspec.simulation.compiled.adapt import adapted
from kraftspec.simulation.compiled.loading import GROUP, LIBRARY, directory, library

PACKAGES = ("reference", "simulation")
# Nodes of other implementations, and what the readable sources share with the compiled ones.
LEFT_OUT = (
    "simulation.harness",
    "simulation.compiled",
    "reference.wire",
    "reference.profiles.parts",
)
# Says the files of all modules that a run loads, by name.
LOADED = """\
import json, sys
from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.simulation.run import simulate
simulate(1, profile_named(KAFKA), events=500)
modules = sorted(name for name in sys.modules if name.startswith("kraftspec."))
print(json.dumps({name: sys.modules[name].__file__ for name in modules}))
"""
# What runs for the compiler's profile: some restarts, reconfigurations and faults of each kind.
TRAINING = """\
import sys
from pathlib import Path
from kraftspec.simulation.compiled.loading import take
take(Path(sys.argv[1]))
from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.simulation.run import simulate
for seed in range(100, 104):
    simulate(seed, profile_named(KAFKA), events=15_000)
"""
# For a profiled build, and for a quick one: 3 is a fifth faster than 1, and takes 40 % more time.
PROFILED_OPTIMISATION, QUICK_OPTIMISATION = "3", "1"
# A call from one module to another does not go through the symbol table then: 3 to 10 % faster.
FLAGS = ("-fvisibility=hidden", "-fno-semantic-interposition")
# Strict, but for what the adapted texts are not: a protocol is said as the class that fulfils it.
CONFIGURATION = """\
[mypy]
strict = true
explicit_package_bases = true
follow_imports = silent
ignore_missing_imports = true
warn_unused_ignores = false
warn_redundant_casts = false
warn_return_any = false
disable_error_code = no-untyped-call,type-arg,attr-defined,arg-type
"""


class BuildError(Exception):
    """The compiled simulator cannot be built; says what is missing."""


def build(*, profiled: bool = True) -> Path:
    """Build the compiled simulator, if that was not done before; return its library.

    ``profiled``: gcc compiles it, runs some seeds, and compiles it again for what they did.
    Otherwise it is compiled once, with less optimisation.

    Raises:
        BuildError: mypy or a C compiler is missing.
    """
    home = directory()
    with locked(home.with_name(f"{home.name}.lock")):
        if not library(home).exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=home.parent, prefix="simulator-build-") as folder:
                built = compile_into(Path(folder), write_sources(Path(folder)), profiled=profiled)
                home.mkdir(exist_ok=True)
                built.replace(library(home))
    return library(home)


def sources() -> dict[str, str]:
    """Return the texts of the modules to compile, by name, as they are to be compiled.

    Those are what a run of Apache Kafka's protocol loads.
    """
    done = subprocess.run(
        [sys.executable, "-c", LOADED], check=True, capture_output=True, text=True
    )
    package = kraftspec.__name__
    packages = tuple(f"{package}.{each}." for each in PACKAGES)
    left_out = tuple(f"{package}.{name}" for name in LEFT_OUT)
    return adapted(
        {
            name: Path(path).read_text("utf-8")
            for name, path in json.loads(done.stdout).items()
            if name.startswith(packages) and not name.startswith(left_out)
        }
    )


def write_sources(folder: Path) -> list[str]:
    """Write the package into a folder, with adapted sources; return the paths of those.

    It is a package like the readable one, and runs without being compiled, too.
    """
    package = Path(kraftspec.__file__).parent
    copied = folder / kraftspec.__name__
    copied.mkdir()
    for path in package.iterdir():
        if path.name in PACKAGES:
            shutil.copytree(path, copied / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.name != "__pycache__":
            (copied / path.name).symlink_to(path.resolve())
    paths = []
    for name, text in sources().items():
        path = folder / name.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        path.write_text(text, "utf-8")
        paths.append(str(path.relative_to(folder)))
    return paths


def compile_into(folder: Path, paths: list[str], *, profiled: bool) -> Path:
    """Let mypyc write C, and a compiler make the library of it, which is returned.

    ``paths`` are those of the sources in the folder. Raises BuildError.
    """
    try:
        mypycify: Any = import_module("mypyc.build").mypycify
        import_module("setuptools")
    except ModuleNotFoundError as error:
        raise BuildError(
            f"{error.name} is not installed: pip install 'mypy==2.4.1' 'setuptools>=80'"
        ) from error
    (folder / "mypy.ini").write_text(CONFIGURATION)
    with chdir(folder):
        extensions = mypycify(
            ["--config-file=mypy.ini", *paths],
            opt_level=PROFILED_OPTIMISATION if profiled else QUICK_OPTIMISATION,
            debug_level="0", multi_file=True, group_name=GROUP,
        )  # fmt: skip
        (whole,) = (each for each in extensions if each.name == LIBRARY)
        whole.extra_compile_args += FLAGS
        if profiled and _is_gcc():
            profile = folder / "profile"
            _make(folder, whole, f"-fprofile-generate={profile}")
            _run_for(profile, folder)
            _make(folder, whole, f"-fprofile-use={profile}", "-Wno-missing-profile")
        else:
            _make(folder, whole)
    return library(folder)


def _run_for(profile: Path, folder: Path) -> None:
    """Run what the compiler is to know of."""
    command = [sys.executable, "-P", "-c", TRAINING, str(folder)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode or not profile.exists():
        raise BuildError(f"the training run left no profile: {done.stderr[-500:]}; try --quick")


def _is_gcc() -> bool:
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        done = subprocess.run([*compiler, "--version"], capture_output=True, check=False, text=True)
    except OSError:
        return False  # The build itself reports it.
    return "Free Software Foundation" in done.stdout


def _make(folder: Path, whole: Any, *flags: str) -> None:
    setup: Any = import_module("setuptools").setup
    whole_with = copy(whole)
    whole_with.extra_compile_args = [*whole.extra_compile_args, *flags]
    whole_with.extra_link_args = list(flags)
    try:
        setup(
            name=GROUP, ext_modules=[whole_with], packages=[],
            script_args=["-q", "build_ext", "--force", "--build-lib", str(folder)],
        )  # fmt: skip
    except SystemExit as error:
        raise BuildError(
            f"the C compiler failed: {error}. Is there one, with Python's headers? "
            "(sudo apt-get install gcc python3-dev)"
        ) from error
