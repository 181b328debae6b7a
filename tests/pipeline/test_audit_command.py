"""``kraftspec pipeline audit``: what it prints, writes and exits with."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from kraftspec.cli import main
from kraftspec.pipeline.audit import Report
from kraftspec.pipeline.audit.rules import EXPLAINED, RULES
from kraftspec.pipeline.audit.segment import Part, Task, audit_file

from .audit_logs import batch, marker, produced, write


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", "audit", *map(str, arguments)])


def test_a_sound_log_exits_0(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0), batch(3)]])
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "1 file, 188 B: 2 batches, 6 records, 0 B damaged" in result.output
    assert "encoded again: 2 the same bytes\n" in result.output
    assert result.output.endswith("0 errors, 0 notes\n")


def test_a_note_is_no_error(tmp_path: Path) -> None:
    write(tmp_path, [[produced(0, 0, transactional=True)]])
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "note transaction_open (1): " in result.output
    assert result.output.endswith("0 errors, 1 note\n")


def test_an_error_exits_1_and_names_file_byte_and_offset(tmp_path: Path) -> None:
    directory = write(tmp_path, [[batch(0), batch(9)]])
    result = run(tmp_path)
    assert result.exit_code == 1
    where = f"{directory}/{0:020}.log, byte 94, offset 9: offsets 3 to 8 are missing (6)"
    assert "error offset_gap (1): " in result.output
    assert where in re.sub(r"\s+", " ", result.output)


def test_many_findings_are_cut_and_counted(tmp_path: Path) -> None:
    write(tmp_path, [[batch(10 * number) for number in range(300)]])
    result = run(tmp_path)
    assert "error offset_gap (299): " in result.output
    assert "and 294 more" in result.output
    report = json.loads(run(tmp_path, "--json").output)
    assert report["findings"]["counts"] == {"offset_gap": 299}
    assert len(report["findings"]["kept"]) == 100


def test_json_is_the_whole_report(tmp_path: Path) -> None:
    write(tmp_path, [[produced(0, 0, transactional=True), marker(3), batch(9)]])
    page = tmp_path / "out" / "audit.html"
    result = run(tmp_path / "t-0", "--json", "--html", page)
    assert result.exit_code == 1
    assert result.stderr == f"wrote {page}\n"
    report = msgspec.convert(json.loads(result.stdout), Report, strict=False)
    assert report.totals.transactions_committed == 1
    assert report.errors == 1
    assert page.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("arguments", [[], ["--nothing", "x"], ["--html"]])
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_what_cannot_be_read_exits_3(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none", tmp_path / "empty"):
        result = run(path)
        assert result.exit_code == 3
        assert str(path) in result.stderr
        assert "Traceback" not in result.output


def test_a_log_without_a_file_has_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{9:020}.log.deleted").write_bytes(batch(9))
    for path in (tmp_path, tmp_path / "t-0"):
        result = run(path)
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr == (
            f"Error: {path}: there is no segment and no checkpoint, so nothing to audit\n"
        )


def test_what_is_no_master_of_spark_exits_3(tmp_path: Path) -> None:
    write(tmp_path, [[batch(0)]])
    result = run(tmp_path, "--master", "nonsense")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("Error: 'nonsense' is no master of Spark: local, ")
    assert isinstance(result.exception, SystemExit)


def test_what_spark_refuses_is_said_without_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise PySparkRuntimeError(": Could not parse Master URL: 'local[x]'\n\tat a.b.C(D.scala:1)")

    monkeypatch.setattr("kraftspec.pipeline.session.session", refuses)
    write(tmp_path, [[batch(0)]])
    result = run(tmp_path, "--master", "local[x]")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Could not parse Master URL: 'local[x]'\n" in result.stderr
    assert "\tat" not in result.stderr


def test_a_page_that_cannot_be_written_costs_the_page_alone(tmp_path: Path) -> None:
    write(tmp_path / "logs", [[batch(0), batch(9)]])
    (tmp_path / "file").write_text("")
    result = run(tmp_path / "logs", "--html", tmp_path / "file" / "audit.html")
    assert result.exit_code == 3
    assert result.stdout == run(tmp_path / "logs").stdout
    assert result.stderr.startswith("Error: ")
    assert isinstance(result.exception, SystemExit)


def test_a_log_that_shrinks_while_it_is_read_exits_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write(tmp_path, [[batch(0)], [batch(3)]])

    def shrinks(task: Task) -> Part:
        os.truncate(directory / f"{3:020}.log", 0)
        return audit_file(task)

    monkeypatch.setattr("kraftspec.pipeline.audit.run.audit_file", shrinks)
    result = run(tmp_path)
    assert result.exit_code == 3
    assert f"not read: {directory}/{3:020}.log: OSError: " in result.output


def test_lines_fit_a_terminal_of_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftspec.cli.output.PLAIN_WIDTH", 80)
    write(tmp_path, [[batch(0), batch(9)]], topic="a-topic-with-a-very-long-name" * 3)
    assert max(map(len, run(tmp_path).output.splitlines())) <= 80


def test_names_with_control_characters_are_escaped(tmp_path: Path) -> None:
    hostile = tmp_path / "\x1b[31m"
    write(hostile, [[batch(0), batch(9)]])
    assert "\x1b" not in run(hostile).output


def test_what_is_passed_over_is_said(tmp_path: Path) -> None:
    directory = write(tmp_path, [[batch(0)]])
    (directory / f"{9:020}.log.deleted").write_bytes(batch(9))
    result = run(tmp_path)
    assert result.exit_code == 0
    assert f"skipped: {directory}/{9:020}.log.deleted: not part of the log" in result.output


def test_types_of_records_are_listed(tmp_path: Path) -> None:
    write(tmp_path, [[produced(0, 0, transactional=True), marker(3), batch(4)]])
    assert "control records: 1 COMMIT v0\n" in run(tmp_path).output


def test_executors_do_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command takes the session that there is, which others need after it."""
    write(tmp_path, [[batch(0)], [batch(9)]])
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    assert run(tmp_path, "--master", "local[2]").output == run(tmp_path).output


# -- The page of the documentation -----------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text("utf-8")
SHOWN = re.compile(
    r"^```sh\nkraftspec pipeline audit (\S+)\n```\n\n```text\n(.*?)^```", re.M | re.S
)


def test_the_documented_command_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = re.search(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    assert first is not None
    exec(compile(first[1], "docs/audit.md", "exec"), {})
    shown = SHOWN.search(PAGE)
    assert shown is not None
    result = run(shown[1])
    assert result.exit_code == 1
    assert [line.rstrip() for line in result.output.splitlines()] == shown[2].splitlines()


def test_the_page_has_every_kind_of_finding() -> None:
    for kind, rule in RULES.items():
        assert f"| `{kind}` | {rule.severity} | {rule.meaning} |" in PAGE
    for kind, why in EXPLAINED.items():
        assert f"| `{kind}` | {why} |" in PAGE
