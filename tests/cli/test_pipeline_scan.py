from __future__ import annotations

import csv
import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from kraftspec.cli import main
from kraftspec.fastpath import encode_batch, encode_control_batch
from kraftspec.pipeline import scan

WORDS = [b"created", b"\xff\x00", None]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for partition in range(2):
        directory = tmp_path / f"logs/orders-{partition}"
        directory.mkdir(parents=True)
        batches = [
            encode_batch(WORDS, keys=[b"k\x1b[31m", None, b"k"], base_offset=base,
                         headers=[[("h", b"1")], None, None], timestamps=1_700_000_000_000)
            for base in (0, 3)
        ]  # fmt: skip
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    return tmp_path / "logs"


@pytest.fixture
def damaged(logs: Path) -> Path:
    path = logs / f"orders-1/{0:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    return logs


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["pipeline", "scan", *map(str, words)])


def test_a_table_for_people(logs: Path) -> None:
    result = run(logs, "--limit", "4")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["topic", "partition", "offset", "timestamp", "key", "value"]
    assert len(lines) == 5
    assert lines[1].split()[:4] == ["orders", "0", "0", "2023-11-14"]
    assert "\x1b" not in result.output  # What is in a record is not for the terminal to obey.
    assert r"k\x1b[31m" in lines[1]
    expected = "read 6 rows of 2 batches, 4 shown\nstopped at the limit of 4 rows: the rest was not"
    assert result.stderr.startswith(expected)


@pytest.mark.parametrize(("width", "longest"), [(80, 80), (60, 76), (20, 76), (200, 107)])
def test_no_column_is_lost_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, longest: int
) -> None:
    directory = tmp_path / "__consumer_offsets-7"
    directory.mkdir()
    data = encode_batch(
        [b"a value of some length"], keys=[b"key of a record"], base_offset=1_234_567_890,
        timestamps=1_700_000_000_000,
    )  # fmt: skip
    (directory / f"{1_234_567_890:020}.log").write_bytes(data)
    monkeypatch.setattr("kraftspec.cli.output.PLAIN_WIDTH", width)
    head, row = run(tmp_path).stdout.splitlines()
    assert head.split() == ["topic", "partition", "offset", "timestamp", "key", "value"]
    cells = re.split(r"  +", row.strip())
    assert cells[1:4] == ["7", "1234567890", "2023-11-14 22:13:20.000"]
    assert [len(cell) >= 8 for cell in (cells[0], *cells[4:])] == [True] * 3
    assert len(row.rstrip()) == longest


def test_a_table_stops_and_says_so(tmp_path: Path) -> None:
    """Exit code 0 is no statement about what was not looked at."""
    (tmp_path / "t-0").mkdir()
    batches = [encode_batch([b"x"], base_offset=at, timestamps=at) for at in range(50)]
    bad = bytearray(batches[40])
    bad[-1] ^= 1
    for number, some in enumerate((batches[:30], [*batches[30:40], bytes(bad), *batches[41:]])):
        (tmp_path / "t-0" / f"{30 * number:020}.log").write_bytes(b"".join(some))
    result = run(tmp_path, "--columns", "offset")
    assert len(result.stdout.splitlines()) == 1 + 20
    assert "--limit" in result.stderr
    assert "[default: 20 for a table; all with --json and --to]" in " ".join(
        run("--help").stdout.split()
    )
    result = run(tmp_path, "--columns", "offset", "--limit", "20", "--json")
    assert ", 20 shown\nstopped at the limit of 20 rows: " in result.stderr
    result = run(tmp_path, "--columns", "offset", "--limit", "50")
    assert (result.exit_code, "49 shown\n" in result.stderr) == (1, True)
    assert "stopped" not in result.stderr


def test_what_is_passed_over_is_said(logs: Path) -> None:
    leaving = logs / f"orders-7.{'a' * 32}-delete"
    leaving.mkdir()
    result = run(logs)
    assert result.exit_code == 0
    assert f"skipped {leaving}: a partition that is not in use: delete" in result.stderr


def test_json_lines(damaged: Path) -> None:
    result = run(damaged, "--json")
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4, 5, None, 3, 4, 5]
    assert rows[0]["value"] == "created"
    assert rows[1]["value"] == {"base64": "/wA="}
    assert rows[0]["headers"] == [{"key": "h", "value": "1"}]
    assert rows[6]["_error"]["class"] == "crc_mismatch"
    assert "1 damaged region" in result.stderr
    assert "orders-1" in result.stderr
    result = run(damaged, "--json", "--columns", "offset, value", "--mode", "dropmalformed")
    assert result.exit_code == 1
    assert json.loads(result.stdout.splitlines()[0]) == {"offset": 0, "value": "created"}
    assert len(result.stdout.splitlines()) == 9


def test_conditions(logs: Path) -> None:
    for conditions, offsets in (
        (["offset>=4"], [4, 5, 4, 5]),
        (["offset >= 4", "partition=1"], [4, 5]),
        (["offset in 1,2", "topic=orders"], [1, 2, 1, 2]),
        (["offset not in 0,1,2,3,4"], [5, 5]),
        (["timestamp>=2023-11-14T22:13:20.001+00:00"], []),
        (["is_control=true"], []),
    ):
        words = [word for each in conditions for word in ("--where", each)]
        result = run(logs, "--json", "--columns", "offset", *words)
        assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == offsets
        assert result.exit_code == 0


def test_a_damaged_marker_may_be_known_from_its_index(tmp_path: Path) -> None:
    writer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    marker = bytearray(
        encode_control_batch(0, bytes(6), timestamp=0, base_offset=1, transactional=True, **writer)
    )
    marker[70] ^= 1
    aborted = encode_batch([b"no"], timestamps=0, base_sequence=0, transactional=True, **writer)
    log = tmp_path / f"orders-0/{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(aborted + marker + encode_batch([b"yes"], timestamps=0, base_offset=2))
    words = [str(log.parent), "--columns", "offset", "--json", "--isolation", "read_committed"]
    without = run(*words)
    assert [json.loads(line)["offset"] for line in without.stdout.splitlines()] == []
    index = log.with_suffix(".txnindex")
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 1, 2))
    result = run(*words, "--use-txn-indexes")
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [2]
    assert "1 aborted transaction known from an index alone" in result.stderr
    index.write_bytes(struct.pack(">hqqqq", 1, 7, 0, 1, 2))
    result = run(*words, "--use-txn-indexes")
    assert result.stdout == ""
    assert f"index not used: {index}, byte 0: version 1 is not 0" in result.stderr


def test_parquet(damaged: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    result = run(damaged, "--to", target)
    assert result.exit_code == 1
    assert pyarrow.parquet.read_table(target) == scan(damaged).read_all()
    assert list(tmp_path.glob("*.part")) == []
    # A row of damage is a row of the file, and none of the log.
    expected = f"read 9 rows of 3 batches, 9 written to {target}, and 1 row of damage\n"
    assert result.stderr.startswith(expected)
    target.unlink()
    result = run(damaged, "--to", target, "--limit", "2")
    assert f", 2 written to {target}\nstopped at the limit of 2 rows: " in result.stderr
    assert pyarrow.parquet.read_table(target).num_rows == 2
    result = run(damaged, "--to", target)
    assert (result.exit_code, "is there already: name another" in result.stderr) == (3, True)
    assert pyarrow.parquet.read_table(target).num_rows == 2
    target.unlink()
    result = run(damaged, "--to", target, "--mode", "FAILFAST")
    assert result.exit_code == 1
    assert "crc_mismatch" in result.stderr
    assert not target.exists()
    assert list(tmp_path.glob("*.part")) == []


def test_csv_and_json_lines(damaged: Path, tmp_path: Path) -> None:
    """Both have what --json prints; CSV in columns."""
    printed = [json.loads(line) for line in run(damaged, "--json").stdout.splitlines()]
    lines, table = tmp_path / "out.jsonl", tmp_path / "out.csv"
    assert run(damaged, "--to", lines).exit_code == 1
    assert [json.loads(line) for line in lines.read_text("utf-8").splitlines()] == printed
    assert run(damaged, "--to", table).exit_code == 1
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["offset"] for row in rows] == ["0", "1", "2", "3", "4", "5", "", "3", "4", "5"]
    assert rows[0]["value"] == "created"
    assert rows[0]["key"] == "k\x1b[31m"
    for row, expected in zip(rows, printed, strict=True):
        assert list(row) == list(expected)
        for name in ("headers", "_error", "is_control"):
            wanted = expected[name]
            assert row[name] == "" if wanted is None else json.loads(row[name]) == wanted
    assert json.loads(rows[1]["value"]) == {"base64": "/wA="}


def test_a_file_that_is_no_log_is_refused(damaged: Path, tmp_path: Path) -> None:
    """Damage of a segment under another name is still damage."""
    notes = tmp_path / "notes.txt"
    notes.write_text("the segments of orders were copied on Monday\n" * 9, "utf-8")
    for command in ("scan", "audit", "metadata"):
        result = CliRunner().invoke(main, ["pipeline", command, str(notes)])
        assert (result.exit_code, result.stdout) == (3, "")
        assert f"{notes} is no log file: no record batch begins in its" in result.stderr
    copy = tmp_path / "copy"
    copy.write_bytes((damaged / f"orders-1/{0:020}.log").read_bytes())
    result = run(copy)
    assert result.exit_code == 1
    assert "1 damaged region" in result.stderr
    copy.write_bytes(b"x" * 100 + copy.read_bytes()[-200:])  # A good batch, after what is none.
    assert run(copy).exit_code == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--where", "offset"], "COLUMN OPERATOR VALUE"),
        (["--where", "offset>=abc"], "offset takes an integer, not 'abc'"),
        (["--where", "offset in 1,x"], "offset takes an integer, not 'x'"),
        (["--where", "offset<=99999999999999999999"], "99999999999999999999 is beyond 64 bits"),
        (["--where", "is_control=1"], "is_control takes true and false, not '1'"),
        (
            ["--where", "compression=brotli"],
            "compression takes an integer or one of none, gzip, snappy, lz4, zstd, not 'brotli'",
        ),
        (["--where", "timestamp>=noon"], "milliseconds, or a time as 2026-01-31T12:00:00+00:00"),
        (["--where", "timestamp>=2026-01-31"], "has no time zone"),
        (["--where", "value=x"], "no filter on 'value'"),
        (["--where", "nothing>=5"], "no filter on 'nothing'; there is on offset, timestamp, "),
        (["--columns", "nothing"], "no column 'nothing'"),
        (["--to", "out.txt"], "ends in .parquet, .csv, .jsonl"),
        (["--limit", "0"], "0"),
        (["--use-txn-indexes"], "goes with --isolation read_committed"),
    ],
)
def test_wrong_usage_exits_2(logs: Path, words: list[str], reason: str) -> None:
    result = run(logs, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in re.sub(r"[\s│]+", " ", result.stderr)


@pytest.mark.parametrize("comparison", [">=", "<=", ">", "<", "=", "!=", " in ", " not in "])
@pytest.mark.parametrize(
    "value", ["9" * 18, "9" * 20, "-" + "9" * 20, "9" * 5000, "1e3", "0001-01-01"]
)
def test_whatever_is_typed_no_trace_is_the_answer(logs: Path, comparison: str, value: str) -> None:
    for column in ("offset", "partition", "timestamp", "compression", "is_control", "topic"):
        result = run(logs, "--where", f"{column}{comparison}{value}", "--json")
        assert result.exception is None or isinstance(result.exception, SystemExit), column
        assert result.exit_code in (0, 2), column


def test_what_cannot_be_read_or_written_exits_3(logs: Path, tmp_path: Path) -> None:
    for words in ([logs / "nowhere"], [tmp_path / "logs/orders-0/x"],
                  [logs, "--to", logs / "none/out.parquet"]):  # fmt: skip
        result = run(*words)
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr.startswith("Error: ")


def test_names_for_numbers(logs: Path) -> None:
    for condition, count in (
        ("compression=none", 12),
        ("compression=zstd", 0),
        ("compression in lz4,NONE", 12),
        ("timestamp_type=create_time", 12),
    ):
        result = run(logs, "--json", "--where", condition)
        assert (result.exit_code, len(result.stdout.splitlines())) == (0, count)
