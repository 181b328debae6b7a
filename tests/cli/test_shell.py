"""``kraftspec shell``: exit codes, lines from a pipe, a terminal, and the page that tells of it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.pipeline.metadata_writer import SEGMENT, frame

from kraftspec.cli import main
from kraftspec.fastpath import encode_batch
from kraftspec.generated import kafka

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "pipeline" / "data" / "metadata"
PAGE = ROOT / "docs" / "shell.md"
CHECKPOINT = "00000000000000000273-0000000003.checkpoint"
DONE, FAILED, USAGE, UNREAD = 0, 1, 2, 3
TERMINAL_TIMEOUT_S = 60.0
CONTROL = re.compile(r"\x1b\[[?\d;]*[a-zA-Z]")


def run(*arguments: str | int | Path, lines: str | None = None) -> Result:
    return CliRunner().invoke(main, ["shell", *map(str, arguments)], input=lines)


def test_one_command() -> None:
    result = run("-s", CORPUS / CHECKPOINT, "ls", "/image/topics")
    assert (result.exit_code, result.stdout, result.stderr) == (DONE, "byId\nbyName\n", "")
    both = run("--directory", CORPUS, "--offset", 100, "cat", "/quorum/log/endOffset")
    assert (both.exit_code, both.stdout) == (DONE, "100\n")


def test_json() -> None:
    result = run("-d", CORPUS, "--json", "cat", "/image/features/metadataVersion")
    assert json.loads(result.stdout) == {
        "/image/features/metadataVersion": {"featureLevel": 30, "version": "4.3-IV0"}
    }
    assert run("-d", CORPUS, "cat", "--json", "/image/features/metadataVersion").stdout == (
        result.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["ls", "/nope"], FAILED, "ls: /nope: no such file or directory."),
        (
            ["blah"],
            USAGE,
            "invalid choice: 'blah' (choose from 'cat', 'find', 'ls', 'man', 'tree')",
        ),
        (["cd", "/image"], USAGE, "invalid choice: 'cd'"),
        (["cat"], USAGE, "too few arguments: cat [--json] targets"),
        (["ls", "-x"], USAGE, "unrecognized arguments: '-x'"),
    ],
)
def test_commands_that_fail(arguments: list[str], code: int, says: str) -> None:
    result = run("-s", CORPUS / CHECKPOINT, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr


def test_what_to_read_is_said_once(tmp_path: Path) -> None:
    both: list[str | int | Path] = ["-s", CORPUS / CHECKPOINT, "-d", CORPUS]
    for arguments in ([], both):
        result = run(*arguments, "ls")
        assert result.exit_code == USAGE
        assert "give either --snapshot FILE or --directory DIR" in result.stderr
    nothing = run("-d", tmp_path, "ls")
    assert (nothing.exit_code, nothing.stdout) == (UNREAD, "")
    assert "holds no metadata log" in nothing.stderr
    missing = run("-s", tmp_path / "none.checkpoint", "ls")
    assert missing.exit_code == UNREAD
    assert "none.checkpoint" in missing.stderr


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.touch()
    result = CliRunner().invoke(main, ["shell", "-d", str(file), "ls"], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert f"{file} is a file: name it with --snapshot" in result.output


def test_damage_is_told_and_the_rest_shown(tmp_path: Path) -> None:
    data = (CORPUS / SEGMENT).read_bytes()
    (tmp_path / SEGMENT).write_bytes(data[:5000] + b"\xff" + data[5001:])
    result = run("-d", tmp_path, "ls", "/image/cluster/controllers")
    assert result.exit_code == FAILED
    assert result.stdout == "3001\n3002\n3003\n"
    assert re.search(
        r"00\.log, byte \d+: .*; the image is that of the offsets below \d+\n$", result.stderr
    )


def test_lines_from_a_pipe() -> None:
    result = run("-d", CORPUS, lines="cd /image/topics\n\npwd\nls\nexit\nls /\n")
    assert (result.exit_code, result.stderr) == (DONE, "")
    assert result.stdout == "/image/topics\nbyId\nbyName\n"
    failed = run("-d", CORPUS, lines="ls /nope\nblah\npwd")
    assert (failed.exit_code, failed.stdout) == (USAGE, "/\n")
    assert failed.stderr.startswith("ls: /nope: no such file")


def test_control_characters_are_escaped(tmp_path: Path) -> None:
    name = "a\x1b[31m\nb\u202e\ud800"
    record = kafka.ConfigRecord(resource_type=4, resource_name="", name="a", value="one\ntwo\x07")
    user = kafka.UserScramCredentialRecord(
        name=name.replace("\ud800", ""), mechanism=1, salt=b"", stored_key=b"", server_key=b"",
        iterations=1,
    )  # fmt: skip
    data = encode_batch([frame(record), frame(user)], timestamps=0)
    (tmp_path / SEGMENT).write_bytes(data)
    output = run("-d", tmp_path, "ls", "/image/scram/SCRAM-SHA-256").stdout
    assert output == "a\\x1b[31m\\nb\\u202e\n"
    assert run("-d", tmp_path, "cat", "/image/configs/BROKER/a").stdout == "one\ntwo\\x07\n"
    assert "one\\ntwo\\x07" in run("-d", tmp_path, "tree", "/image/configs").stdout
    missing = run("-d", tmp_path, "ls", "/\x1b[2J")
    assert missing.stderr == "ls: /\\x1b[2J: no such file or directory.\n"


class Terminal:
    """The shell at a pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.descriptor = ours
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kraftspec", "shell", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
            env=os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        )  # fmt: skip
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until ``text`` is there, behind what was waited for before; colours do not count."""
        deadline = time.monotonic() + TERMINAL_TIMEOUT_S
        while text not in (shown := CONTROL.sub("", self.seen)):
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.descriptor], [], [], left)[0]
            assert ready, f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.descriptor, 65536).decode(errors="replace")
        self.seen = shown.partition(text)[2]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(TERMINAL_TIMEOUT_S)
        os.close(self.descriptor)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    started = Terminal("-d", str(CORPUS))
    yield started
    started.close()


def test_a_terminal_completes_and_remembers(terminal: Terminal) -> None:
    terminal.wait_for(">>")
    terminal.type("cat /ima\t")
    terminal.wait_for("/image/")
    terminal.type("prov\t")
    terminal.wait_for("provenance")
    terminal.type("\r")
    terminal.wait_for("offset 275, epoch 3, time ")
    terminal.type("ls /image/topics\r")
    terminal.wait_for("byId  byName")
    terminal.type("\x1b[A\x1b[A\r")  # Two lines back.
    terminal.wait_for("offset 275, epoch 3, time ")
    terminal.type("no\x03history\r")  # Ctrl-C gives up a line.
    terminal.wait_for("    2  cat /image/provenance")
    terminal.type("exit\r")
    assert terminal.process.wait(TERMINAL_TIMEOUT_S) == DONE


def test_the_end_of_input_ends_it(terminal: Terminal) -> None:
    terminal.wait_for(">>")
    terminal.type("\x04")
    assert terminal.process.wait(TERMINAL_TIMEOUT_S) == DONE


def examples() -> list[tuple[str, str]]:
    """The sessions of the page: what is typed at a ``$``, and what it prints."""
    sessions = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            sessions.append((command, printed))
    return sessions


def test_the_page_has_examples() -> None:
    assert len(examples()) >= 6


@pytest.mark.parametrize(("command", "printed"), examples())
def test_the_page_is_right(
    command: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CORPUS, tmp_path / "data" / "__cluster_metadata-0")
    monkeypatch.chdir(tmp_path)
    lines = None
    given = re.fullmatch(r"printf '(.*)' \| (.*)", command)
    if given:
        lines, command = given[1].replace("\\n", "\n"), given[2]
    words = shlex.split(command)
    assert words[:2] == ["kraftspec", "shell"]
    result = run(*words[2:], lines=lines)
    assert result.output == printed
