"""tshark with the rendered dissector, and what it shows of a capture as plain values."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

from tests.conftest import cannot_run

from kraftspec.cache import cache_directory, locked

_INSTALL = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "tshark"]
_TIMEOUT_S = 600.0


def tshark() -> str:
    """Return the path of tshark; install it first if this is Debian and the user is root.

    Without one the test is skipped, and on a build machine it fails.
    """
    if path := shutil.which("tshark"):
        return path
    problem = f"no tshark was found; install it with: sudo {' '.join(_INSTALL)}"
    if shutil.which("apt-get") and os.geteuid() == 0:
        with locked(cache_directory() / "tshark.lock"):
            for command in (["apt-get", "update", "-q"], _INSTALL):
                if shutil.which("tshark") is None:
                    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
                    subprocess.run(
                        command,
                        capture_output=True,
                        env=environment,
                        timeout=_TIMEOUT_S,
                        check=False,
                    )
        if path := shutil.which("tshark"):
            return path
    cannot_run(problem)


@dataclass(slots=True)
class Shown:
    """A line of Wireshark's tree: its filter name, its text, its bytes, its value.

    ``at`` counts from the start of the frame's size; ``value`` is as a filter would compare it.
    """

    name: str
    text: str
    at: int
    size: int
    value: str
    raw: bytes
    below: list[Shown] = field(default_factory=list)

    def walk(self) -> list[Shown]:
        """Return this line and all lines below it, in order."""
        return [self, *(inner for line in self.below for inner in line.walk())]

    def named(self, name: str) -> list[Shown]:
        """Return the lines of that filter name, this one and those below."""
        return [line for line in self.walk() if line.name == f"kraftspec.{name}"]


def run(capture: Path, dissector: Path, *options: str) -> bytes:
    """Return what tshark prints of a capture; a complaint of Lua fails the test."""
    command = [tshark(), "-n", "-r", str(capture), "-X", f"lua_script:{dissector}", *options]
    completed = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    complaints = completed.stderr.decode().splitlines()
    assert completed.returncode == 0, complaints
    assert not [line for line in complaints if "lua" in line.lower()], complaints
    at = completed.stdout.find(b"Lua Error")
    assert at < 0, completed.stdout[at : at + 500]
    return completed.stdout


def frames(capture: Path, dissector: Path, *options: str) -> Iterator[Shown]:
    """Yield what the dissector shows of each frame of Kafka, in the order of the capture."""
    text = run(capture, dissector, "-T", "pdml", "-J", "kraftspec", *options)
    for _, packet in ElementTree.iterparse(BytesIO(text)):
        if packet.tag == "packet":
            for proto in packet.findall("proto"):
                if proto.get("name") == "kraftspec":
                    yield _shown(proto, int(proto.get("pos", "0")))
            packet.clear()


def _shown(element: ElementTree.Element, start: int) -> Shown:
    return Shown(
        element.get("name", ""),
        element.get("showname", element.get("show", "")),
        int(element.get("pos", "0")) - start,
        int(element.get("size", "0")),
        element.get("show", ""),
        bytes.fromhex(element.get("value", "")),
        [_shown(inner, start) for inner in element],
    )
