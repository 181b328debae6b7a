"""The C headers of CRC-32C alone: each x86-64 path as the best there is, and ARMv8 by an emulator.

Each compiles crc_driver.c, which compares every path with the table. What needs a tool that is
missing is skipped, but fails on a build machine: there arm_crc.sh installs what ARM needs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kraftspec.fastpath import native

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "fastpath"
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]

_crc: Any = native.load("_crc")
PATHS: list[str] = _crc.paths() if _crc is not None else []
ARM_COMPILER = "aarch64-linux-gnu-gcc"
ARM_EMULATOR = "qemu-aarch64"
# The first is a CPU of 2014, the second has all that the emulator knows.
ARM_CPUS = ("cortex-a53", "max")


def needs(*tools: str) -> None:
    """Skip where a tool is missing, and fail there on a build machine."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return
    output = (
        f"{' and '.join(missing)} missing: see tests/fastpath/arm_crc.sh, or install a C compiler"
    )
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(output, pytrace=False)
    pytest.skip(output)


def drive(built: Path, compiler: list[str], emulator: list[str], chosen: str) -> list[str]:
    """Compile the driver, run it, and return the paths that it ran."""
    driver = str(HERE / "crc_driver.c")
    subprocess.run([*compiler, f"-I{INCLUDE}", driver, "-o", built], check=True)
    done = subprocess.run([*emulator, built, chosen], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    paths, _, name = done.stdout.partition("chosen: ")
    assert name == f"{chosen}\n"
    return paths.split()


@pytest.mark.parametrize("skipped", range(len(PATHS)), ids=PATHS)
def test_each_path_as_the_best(skipped: int, tmp_path: Path) -> None:
    needs("cc")
    compiler = ["cc", *STRICT, "-O3", f"-DCRC32C_SKIPPED={skipped}"]
    assert drive(tmp_path / "driver", compiler, [], PATHS[skipped]) == PATHS[skipped:]


def test_without_hardware(tmp_path: Path) -> None:
    needs("cc")
    compiler = ["cc", *STRICT, "-O2", "-DCRC32C_NO_HARDWARE"]
    assert drive(tmp_path / "driver", compiler, [], "table") == ["table"]


@pytest.mark.skipif(not PATHS, reason="the compiled module is not there, or turned off")
def test_without_optimisation(tmp_path: Path) -> None:
    needs("cc")
    assert drive(tmp_path / "driver", ["cc", *STRICT, "-O0"], [], PATHS[0]) == PATHS


@pytest.mark.soak  # `make test-all` installs the cross compiler and the emulator first.
@pytest.mark.skipif(platform.system() != "Linux", reason="qemu-aarch64 is for Linux")
@pytest.mark.parametrize("cpu", ARM_CPUS)
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_armv8(cpu: str, level: str, tmp_path: Path) -> None:
    needs(ARM_COMPILER, ARM_EMULATOR)
    compiler = [ARM_COMPILER, *STRICT, level, "-static"]
    emulator = [ARM_EMULATOR, "-cpu", cpu]
    expected = ["armv8", "armv8-crc", "table"]
    assert drive(tmp_path / "driver", compiler, emulator, "armv8") == expected
