"""The table of docs/tools.md: which paths the commands take that read logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.reference.recovery.directories import Data, Lead, quorum

from kraftspec.cli import main
from kraftspec.fastpath import encode_batch

METADATA = "__cluster_metadata-0"
SEGMENT = f"{0:020}.log"
# Of the table's columns: dump-log, shell -d, pipeline, quorum.
ROWS = {
    "log directory": ("home", "taken", "taken", "taken", "taken"),
    "metadata log": (f"home/{METADATA}", "taken", "taken", "taken", "taken"),
    "partition": ("home/orders-0", "taken", "damage", "taken", "refused"),
    "directory of log directories": (".", "taken", "refused", "taken", "refused"),
    "segment": (f"home/{METADATA}/{SEGMENT}", "taken", "refused", "taken", "refused"),
    "segment by another name": ("copy", "ignored", "refused", "taken", "refused"),
    "other file": ("home/notes.txt", "ignored", "refused", "refused", "refused"),
}
COMMANDS = (
    ("dump-log",),
    ("shell", "-d"),
    ("pipeline", "scan"),
    ("pipeline", "audit"),
    ("pipeline", "metadata"),
    ("quorum", "verify"),
    ("quorum", "recover", "--keep", "1"),
)
COLUMNS = (1, 2, 3, 3, 3, 4, 4)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paths")
    (node,) = quorum(root, Lead(1, 1, (1,)), Data(1, 4), ids=(1,))
    Path(node.path).rename(root / "home")
    partition = root / "home" / "orders-0"
    partition.mkdir()
    (partition / SEGMENT).write_bytes(encode_batch([b"created"], timestamps=1_700_000_000_000))
    (root / "copy").write_bytes((root / "home" / METADATA / SEGMENT).read_bytes())
    (root / "home" / "notes.txt").write_text("copied on Monday\n" * 20, "utf-8")
    return root


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(("command", "column"), list(zip(COMMANDS, COLUMNS, strict=True)))
def test_the_table(logs: Path, kind: str, command: tuple[str, ...], column: int) -> None:
    path, expected = logs / ROWS[kind][0], ROWS[kind][column]
    words = [*command, str(path)] + (["ls", "/"] if command[0] == "shell" else [])
    result = CliRunner().invoke(main, words, env={"COLUMNS": "300"})
    if (kind, command) == ("partition", ("pipeline", "metadata")):
        expected = "refused"
    told = f"{result.output}\nexit code {result.exit_code}"
    if command[0] == "dump-log" and expected == "ignored":
        assert (result.exit_code, "Ignoring unknown file" in result.output) == (0, True), told
    elif expected == "taken":
        # To recover is refused: the quorum of one needs no cure.
        assert result.exit_code in ((0, 1) if command[0] in ("pipeline", "quorum") else (0,)), told
        assert "is no log file" not in result.output, told
        assert "unreadable" not in result.output, told
    elif expected == "damage":
        assert result.exit_code == 1, told
    else:
        assert result.exit_code in ((1, 3) if command[:2] == ("quorum", "recover") else (2, 3)), (
            told
        )
