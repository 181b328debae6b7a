"""``kraftspec pipeline metadata``: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from kraftspec.cli import main
from kraftspec.fastpath import encode_batch
from kraftspec.pipeline.metadata import TABLES, image_tables, output, read_image, records

from .metadata_corpus import DATA

CLEAN, DAMAGED, USAGE, UNREAD = 0, 1, 2, 3
SEGMENT = "00000000000000000000.log"


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["pipeline", "metadata", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log with a record of an unknown type and a batch that is wrong."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    noop = b"\x01\x14\x00\x00"
    bad = bytearray(encode_batch([noop], timestamps=0, base_offset=2))
    bad[-1] ^= 1
    good = encode_batch([noop], timestamps=0, base_offset=3)
    first = encode_batch([noop, b"\x01\x63\x00"], timestamps=0)
    (directory / SEGMENT).write_bytes(first + bytes(bad) + good)
    return directory


def test_a_dataset_of_records(tmp_path: Path) -> None:
    out = tmp_path / "new" / "records"
    result = run(DATA, "--to", "parquet", "--out", out)
    expected = records(DATA).read_all()
    assert (result.exit_code, result.stdout) == (CLEAN, f"{expected.num_rows:,} records\n")
    assert ds.dataset(out).to_table().equals(expected)
    assert [path.name for path in out.parent.iterdir()] == ["records"]
    again = run(DATA, "--out", out)
    assert again.exit_code == UNREAD
    assert "is there already: name another" in again.stderr
    assert "Error: there is no file or directory" in run(tmp_path / "none").stderr


def test_a_large_dataset_has_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PART_ROWS_MAX", 100)
    run(DATA, "--out", tmp_path / "out", "--record-type", "PartitionRecord")
    parts = sorted((tmp_path / "out").iterdir())
    assert len(parts) > 1
    assert parts[1].name == "part-00001.parquet"
    expected = records(DATA, record_type="PartitionRecord").read_all()
    assert pa.concat_tables(map(pq.read_table, parts)).equals(expected)


def test_nothing_is_left_of_what_failed(damaged: Path, tmp_path: Path) -> None:
    result = run(damaged, "--out", tmp_path / "out", "--mode", "failfast")
    assert result.exit_code == UNREAD
    assert "record at offset 1, byte 1 of its value: there is no metadata record" in result.stderr
    result = run(damaged, "--to", "json", "--out", tmp_path / "out", "--mode", "failfast")
    assert result.exit_code == UNREAD
    assert [path.name for path in tmp_path.iterdir()] == [damaged.name]


def test_damage_is_told(damaged: Path, tmp_path: Path) -> None:
    result = run(damaged)
    assert result.exit_code == DAMAGED
    assert "2 records, 2 damaged" in result.stdout
    assert "there is no metadata record with API key 99 [unknown_message]" in result.stdout
    assert result.stdout.count("[crc_mismatch]") == result.stdout.count("[unknown_message]") == 1
    summary = json.loads(run(damaged, "--json", "--mode", "DROPMALFORMED").stdout)
    assert (summary["rows"], summary["dropped_regions"]) == (2, 2)
    assert summary["types"] == {"NoOpRecord": 2}
    classes = [actual["error_class"] for actual in summary["damaged"]]
    assert sorted(classes) == ["crc_mismatch", "unknown_message"]
    result = run(damaged, "--out", tmp_path / "out")
    assert result.exit_code == DAMAGED
    assert ds.dataset(tmp_path / "out").to_table()["_error"].null_count == 2


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_records_as_json(tmp_path: Path) -> None:
    actual = lines(run(DATA, "--to", "json").stdout)
    expected = records(DATA).read_all().to_pylist()
    assert [row["record"] for row in actual] == [json.loads(row["record"]) for row in expected]
    assert actual[0]["timestamp"].endswith("Z")
    typed = run(DATA, "--to", "json", "--record-type", "TopicRecord", "--out", tmp_path / "topics")
    assert " of other types\n" in typed.stdout
    names = [row["record"]["name"] for row in lines((tmp_path / "topics").read_text())]
    assert names == [row["record"]["name"] for row in actual if row["type"] == "TopicRecord"]


@pytest.mark.parametrize("image", [[], ["--image"]])
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_what_is_there_is_never_written_over(tmp_path: Path, image: list[str], form: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    result = run(DATA, *image, "--to", form, "--out", kept)
    assert (result.exit_code, result.stdout) == (UNREAD, "")
    assert f"{kept} is there already: name another" in result.stderr
    assert kept.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_table_for_people() -> None:
    result = run(DATA, "--limit", "3")
    head, *rows, more, _, count = result.stdout.splitlines()
    assert head.split() == ["offset", "epoch", "type", "version", "record"]
    assert [row.split()[2] for row in rows] == [
        "SnapshotHeaderRecord", "KRaftVersionRecord", "VotersRecord",
    ]  # fmt: skip
    total = records(DATA).read_all().num_rows
    assert more == f"and {total - 3} more; --limit 0 shows all"
    assert count == f"{total} records"


def test_the_image(tmp_path: Path) -> None:
    tables = image_tables(read_image(DATA, 100))
    result = run(DATA, "--image", "--as-of", "100", "--out", tmp_path / "image")
    assert result.exit_code == CLEAN
    assert result.stdout.endswith("in 13 tables, of the offsets below 100\n")
    assert {path.stem for path in (tmp_path / "image").iterdir()} == set(TABLES)
    for name in TABLES:
        assert pq.read_table(tmp_path / "image" / f"{name}.parquet").equals(tables[name])
    printed = json.loads(run(DATA, "--image", "--as-of", "100", "--to", "json").stdout)
    assert printed["topics"] == tables["topics"].to_pylist()
    assert set(printed) == set(TABLES)
    one = run(DATA, "--image", "--to", "json", "--table", "voters", "--out", tmp_path / "voters")
    assert one.exit_code == CLEAN
    assert set(json.loads((tmp_path / "voters").read_text())) == {"voters"}
    summary = json.loads(run(DATA, "--image", "--json", "--as-of", "100").stdout)
    assert (summary["endOffset"], summary["tables"]["topics"]) == (100, tables["topics"].num_rows)


def test_the_image_for_people() -> None:
    message = run(DATA, "--image", "--table", "partitions", "--table", "voters").stdout
    assert "partitions, " in message
    assert "CONTROLLER://127.0.0.1:" in message
    assert message.splitlines()[1].split()[:4] == [
        "topicName",
        "partitionId",
        "leader",
        "leaderEpoch",
    ]


def test_an_image_that_cannot_be_made(tmp_path: Path, damaged: Path) -> None:
    result = run(damaged, "--image")
    assert (result.exit_code, result.stdout) == (UNREAD, "")
    assert "record at offset 1, byte 1 of its value: there is no metadata record" in result.stderr
    assert "the log ends at offset" in run(DATA, "--image", "--as-of", "99999").stderr
    shutil.copy(sorted(DATA.glob("*.log"))[-1], tmp_path)
    assert run(tmp_path / "none", "--image").exit_code == UNREAD


def test_the_advice_of_a_damaged_log_works(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    noop = b"\x01\x14\x00\x00"
    batches = [
        bytearray(encode_batch([noop] * 3, timestamps=0, base_offset=at)) for at in (0, 3, 6)
    ]
    batches[1][-1] ^= 1
    for bad in (b"".join(batches), encode_batch([noop] * 3 + [b"\x01\x63\x00"], timestamps=0)):
        (directory / SEGMENT).write_bytes(bad)
        result = run(tmp_path, "--image")
        assert (result.exit_code, result.stdout) == (UNREAD, "")
        assert result.stderr.endswith("; as_of (--as-of) 3 gives the image before it\n")
        assert "PERMISSIVE" not in result.stderr
        message = run(tmp_path, "--image", "--as-of", "3").stdout
        assert message.endswith("of the offsets below 3\n")
        assert run(tmp_path, "--image", "--as-of", "4").exit_code == UNREAD


def test_an_image_without_the_damaged_checkpoint(tmp_path: Path) -> None:
    directory = tmp_path / DATA.name
    shutil.copytree(DATA, directory)
    checkpoint = sorted(directory.glob("*.checkpoint"))[-1]
    data = bytearray(checkpoint.read_bytes())
    data[70] ^= 1
    checkpoint.write_bytes(data)
    end = int(checkpoint.name[:20])
    result = run(directory, "--image")
    assert result.exit_code == UNREAD
    assert result.stderr.endswith(f"; as_of (--as-of) below {end} does without this checkpoint\n")
    assert run(directory, "--image", "--as-of", str(end - 1)).exit_code == CLEAN


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "parquet"], "--to parquet needs --out"),
        (["--to", "table", "--out", "x"], "--out goes with parquet and json"),
        (["--as-of", "3"], "--as-of and --table go with --image"),
        (["--table", "topics"], "--as-of and --table go with --image"),
        (["--image", "--record-type", "TopicRecord"], "with --image name a --table"),
        (["--image", "--table", "topic"], "there is no table 'topic': quorum, voters"),
        (["--record-type", "TopicRecrd"], "no metadata record 'TopicRecrd'; did you mean Topic"),
        (["--as-of", "-1", "--image"], "-1 is not in the range"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = run(DATA, *arguments)
    assert result.exit_code == USAGE
    assert message in " ".join(result.stderr.split())
