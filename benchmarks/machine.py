"""What a run was made on, and how quiet it was there."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "aiokafka", "kafka-python", "kio", "crc32c", "crc32c-rs", "fastcrc", "google-crc32c",
    "awscrt", "pyarrow", "msgspec", "isal", "cramjam", "lz4", "zstandard",
    "backports.zstd", "pytest-benchmark",
)  # fmt: skip
CPU_FLAGS = ("sse4_2", "pclmulqdq", "avx512vl", "vpclmulqdq", "crc32", "pmull")  # What CRC uses.


def facts() -> dict[str, Any]:
    """Processor, memory, system and interpreter."""
    info = _read("/proc/cpuinfo")
    model = next((line for line in info if line.startswith("model name")), "")
    flags = next((line for line in info if line.startswith(("flags", "Features"))), "").split()
    memory = next((line for line in _read("/proc/meminfo") if line.startswith("MemTotal")), "")
    cpu = model.partition(":")[2].strip() or platform.processor() or platform.machine()
    return {
        "cpu": cpu,
        "cpu_flags": [flag for flag in CPU_FLAGS if flag in flags],
        "cpu_count": os.cpu_count(),
        "memory_gib": round(int(memory.split()[1]) / (1 << 20)) if memory else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _read(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError:
        return []


def packages(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The versions of the Python packages that are measured, of those that are there."""
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def commit(*directories: str) -> dict[str, Any]:
    """The commit that is checked out, and whether the code of some directories differs from it."""
    revision = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", *(directories or ("fastpath", "codegen")))
    return {"id": revision, "changed": bool(changed)}


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def now() -> str:
    """The date, UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


def _own_s() -> float:
    """Seconds that this process and its ended children worked."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Quiet:
    """The load of other processes on the machine, from construction to ``read()``.

    ``own_s`` returns the processor time of this run, with children that have not ended.
    """

    def __init__(self, own_s: Callable[[], float] = _own_s) -> None:
        self._own_s = own_s
        self._load = os.getloadavg()[0]
        self._begin, self._busy, self._own = time.monotonic(), _busy_s(), own_s()

    def read(self) -> dict[str, float | None]:
        """Load average before, and the processors that others used on average (Linux)."""
        elapsed = max(time.monotonic() - self._begin, 1e-3)
        busy = _busy_s()
        others = None
        if busy is not None and self._busy is not None:
            used = busy - self._busy - (self._own_s() - self._own)
            others = round(max(0.0, used / elapsed), 2)
        return {"load_before": round(self._load, 2), "others_cpus": others}


def _busy_s() -> float | None:
    """Seconds that all processors worked, or were taken away by a hypervisor."""
    lines = _read("/proc/stat")
    if not lines:
        return None
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, lines[0].split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
