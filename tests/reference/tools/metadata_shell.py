"""Apache Kafka's own MetadataShell on a file, and what differs between its tree and ours.

``python -m tests.reference.tools.metadata_shell`` records what it prints of the committed logs, for
tests on machines without Java.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kraftspec.conformance.cluster.artifacts import SHELL_RELEASE, java_command
from kraftspec.reference.tools.shell.load import Source
from kraftspec.reference.tools.shell.tree import Directory, Node, root_of

CORPUS = Path(__file__).resolve().parents[2] / "pipeline" / "data" / "metadata"
DATA = Path(__file__).parent / "data"
# Those that stand alone: Kafka's shell reads one file.
RECORDED = {
    "log": "00000000000000000000.log",
    "checkpoint": "00000000000000000273-0000000003.checkpoint",
}
SESSION_TIMEOUT_S = 180.0
PROMPT = ">> "
_EMPTY = "offset -1, epoch -1,"


class KafkaShell:
    """A session of Kafka's shell with a copy of a file (it locks what is around the file)."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> Self:
        self._place = tempfile.TemporaryDirectory()
        copy = Path(self._place.name) / "log" / "__cluster_metadata-0" / self.file.name
        copy.parent.mkdir(parents=True)
        copy.write_bytes(self.file.read_bytes())
        shell = "org.apache.kafka.shell.MetadataShell"
        command = java_command(shell, "--snapshot", str(copy), release=SHELL_RELEASE)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8",
        )  # fmt: skip
        self._end = threading.Timer(SESSION_TIMEOUT_S, self._process.kill)
        self._end.start()
        self._asked = 0
        self._load()
        return self

    def _load(self) -> None:
        """Wait until the file is read: a moment after the shell begins to answer."""
        deadline = time.monotonic() + SESSION_TIMEOUT_S
        while True:
            (line,) = self.ask("cat /image/provenance")[-1:] or ("",)
            if _EMPTY not in line:
                return
            assert time.monotonic() < deadline, "Kafka's shell has read nothing"
            time.sleep(0.05)

    def ask(self, line: str) -> list[str]:
        """Return the lines that a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        mark = f"cat: /mark-{self._asked}: No such file or directory."
        self._process.stdin.write(f"{line}\ncat /mark-{self._asked}\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for read in self._process.stdout:
            text = read.rstrip("\n")
            while text.startswith(PROMPT):
                text = text.removeprefix(PROMPT)
            if text.endswith(mark):
                return lines
            lines.append(text)
        raise AssertionError(f"Kafka's shell ended after {line!r}: {lines[-5:]}")

    def tree(self) -> list[str]:
        """Return all of its image."""
        return self.ask("tree /image")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.cancel()
        self._process.kill()
        self._process.communicate(timeout=SESSION_TIMEOUT_S)
        self._place.cleanup()


def tree_of(node: Node, indent: str = "") -> Iterator[str]:
    """The lines of a tree, made without the commands of the shell."""
    if not isinstance(node, Directory):
        yield indent + node.text
        return
    for name in node.names():
        child = node.child(name)
        assert child is not None, name
        yield f"{indent}{name}:"
        yield from tree_of(child, indent + "  ")


def ours(source: Source) -> list[str]:
    """All of our image of a source, as Kafka's shell would print it."""
    loaded = source.load()
    assert loaded.problems == []
    image = root_of(loaded, "").child("image")
    assert image is not None
    return as_kafkas(list(tree_of(image)))


def as_kafkas(lines: list[str]) -> list[str]:
    """Our tree as Kafka's shell shows it: entities of quotas without their defaults.

    Theirs have no name there, and no contents, unless another entity has the name without them.
    """
    start = lines.index("clientQuotas:") + 1
    end = next(at for at in range(start, len(lines)) if not lines[at].startswith(" "))
    entities: list[tuple[str, list[str]]] = []
    for line in lines[start:end]:
        if line.startswith("   "):
            entities[-1][1].append(line)
        else:
            entities.append((line.strip().removesuffix(":"), []))
    contents = dict(entities)
    shown: list[tuple[str, list[str]]] = []
    for name, _ in entities:
        named = re.sub(r"(^|_)\w+\(<default>\)", "", name).removeprefix("_")
        shown.append((named, contents.get(named, [])))
    entities_lines = [line for name, below in sorted(shown) for line in (f"  {name}:", *below)]
    return lines[:start] + entities_lines + lines[end:]


def without_provenance(lines: list[str]) -> list[str]:
    """A tree without the one leaf that differs for checkpoints."""
    at = lines.index("provenance:")
    return lines[: at + 1] + lines[at + 2 :]


def provenance(lines: list[str]) -> str:
    return lines[lines.index("provenance:") + 1].strip()


def recorded(name: str) -> list[str]:
    """What Kafka's shell printed of a committed file."""
    return gzip.decompress((DATA / f"{name}.tree.gz").read_bytes()).decode().splitlines()


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for name, file in RECORDED.items():
        with KafkaShell(CORPUS / file) as shell:
            text = "\n".join(shell.tree()) + "\n"
        (DATA / f"{name}.tree.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
