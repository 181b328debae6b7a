"""Campaigns over a real Spark: killed again and again, summed up, and what the command says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kraftspec.pipeline.campaign.conform import Conform
from kraftspec.pipeline.campaign.drive import run_units
from kraftspec.pipeline.campaign.kind import Unit
from kraftspec.pipeline.campaign.model_check import ModelChecks
from kraftspec.pipeline.campaign.page import page
from kraftspec.pipeline.campaign.store import Store, open_store
from kraftspec.pipeline.campaign.summary import CountError, Summary, summarise, write

from .campaigns import (
    FUZZ,
    UNIT_CASES,
    UNITS,
    WAIT_S,
    below,
    check_all,
    command,
    processes,
    results,
    started,
    wait,
    workers,
)

HERE = Path(__file__).parent
PLANTED = f"{sys.executable} {HERE.parent / 'conformance/fuzz/planted_adapter.py'}"


@pytest.mark.kafka
def test_whoever_is_killed_the_results_are_the_same_unit_by_unit(tmp_path: Path) -> None:
    out = tmp_path / "c"
    with started(*FUZZ, "--out", out) as driver:
        wait(lambda: len(results(out)) >= 2, driver)
        while not (at_work := workers(driver.pid)):
            assert driver.poll() is None, driver.communicate()
        os.kill(at_work[0], signal.SIGKILL)  # Spark tries its unit again.
        at = len(results(out))
        wait(lambda: len(results(out)) >= at + 3, driver)
        [jvm] = below(driver.pid, "org.apache.spark.deploy.SparkSubmit")
        os.kill(jvm, signal.SIGKILL)
        _, output = driver.communicate(timeout=WAIT_S)
    assert driver.returncode == 3
    assert re.search(rf"Spark did not finish: \d+ of {UNITS} units are done and kept", output)
    first = results(out)
    assert 5 <= len(first) < UNITS

    with started(*FUZZ, "--out", out) as driver:
        wait(lambda: len(results(out)) >= len(first) + 2, driver)
        jvm = below(driver.pid, "org.apache.spark.deploy.SparkSubmit")[0]
        driver.kill()
        driver.communicate(timeout=WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while any(pid == jvm for pid, _, _ in processes()):  # It ends when its driver is gone.
        assert time.monotonic() < deadline
        time.sleep(0.1)
    second = results(out)
    assert second.items() >= first.items()
    assert len(second) < UNITS

    with started(*FUZZ, "--out", out) as driver:
        wait(lambda: len(results(out)) >= len(second) + 2, driver)
        driver.send_signal(signal.SIGINT)
        _, output = driver.communicate(timeout=WAIT_S)
    assert driver.returncode == 130
    assert "Interrupted. Run the same command again to continue." in output
    second = results(out)

    done = subprocess.run(
        command(*FUZZ, "--out", out, "--json"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(second) <= report["resumed"] < UNITS
    assert (report["done"], report["cases"]) == (UNITS, UNITS * UNIT_CASES)
    assert results(out).items() >= second.items()  # What was done has not been touched again.
    check_all(out)


@pytest.mark.kafka
def test_executors_hold_runs_against_the_model(spark: SparkSession, tmp_path: Path) -> None:
    """Each has a TLC of its own, which rejects the run in which a seeded bug acts."""
    kind = ModelChecks(seeds=2, events=500, bugs=("wins_with_half",), unit_seeds=1)
    units = kind.plan()
    store = open_store(tmp_path, kind, units)
    run_units(spark, kind, store, units, lambda *_: None)
    summary = summarise(spark, kind, store, units)
    assert (summary.done, len(units)) == (2, 2)
    [finding] = summary.findings
    assert "the model's node before: " in finding.example
    assert "--seed 1 --events 500 --bug wins_with_half" in finding.reproduce


# --------------------------------------------------------------- one campaign, and its summary


@pytest.fixture(scope="module")
def conform(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Conform, Store, list[Unit], Summary]:
    """A campaign of an adapter with a fault and one without, done."""
    kind = Conform(
        names=("kraftspec",), commands=(f"{PLANTED} width",),
        filters=("message:VoteRequest", "message:AddRaftVoterRequest"), unit_cases=100,
    )  # fmt: skip
    units = kind.plan()
    store = open_store(tmp_path_factory.mktemp("campaign"), kind, units)
    seen: list[tuple[int, int]] = []
    run_units(spark, kind, store, units, lambda *done: seen.append(done))
    assert seen[-1] == (len(units), sum(unit.cases for unit in units))
    return kind, store, units, summarise(spark, kind, store, units)


def test_the_summary_counts_what_the_results_hold(
    conform: tuple[Conform, Store, list[Unit], Summary],
) -> None:
    kind, store, units, summary = conform
    rows = [row for unit in units for row in pq.read_table(store.path(unit)).to_pylist()]
    by_class, by_message = Counter[Any](), Counter[Any]()
    result: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        key = row["adapter"], row["set"]
        if row["row"] == "tally":
            by_class[*key, row["class"]] += row["count"]
            by_message[*key, row["message"], row["version"], row["class"]] += row["count"]
        elif row["row"] == "finding":
            result.setdefault(row["signature"], []).append(row)
    assert {(r["adapter"], r["set"], r["class"]): r["cases"] for r in summary.by_class} == by_class
    assert by_message == {
        (r["adapter"], r["set"], r["message"], r["version"], r["class"]): r["cases"]
        for r in summary.by_message
    }
    assert summary.cases == sum(by_class.values()) == sum(unit.cases for unit in units)
    assert (summary.done, summary.units, summary.kind) == (len(units), len(units), kind.name)
    assert by_class["exec", "kafka", "failed"] > 0
    assert {one.signature: one.cases for one in summary.findings} == {
        signature: sum(row["count"] for row in alike) for signature, alike in result.items()
    }
    for one in summary.findings:
        assert one.versions == sorted({row["version"] for row in result[one.signature]})
        assert len(one.example) == min(len(row["example"]) for row in result[one.signature])
        assert one.adapter == "exec"


def test_counts_that_do_not_add_up_are_refused(
    spark: SparkSession, conform: tuple[Conform, Store, list[Unit], Summary], tmp_path: Path
) -> None:
    kind, store, units, _ = conform
    other = open_store(tmp_path, kind, units)
    for unit in units:
        rows = pq.read_table(store.path(unit)).to_pylist()
        rows[0]["count"] += unit.number == 1
        pq.write_table(pa.Table.from_pylist(rows, schema=kind.schema), other.path(unit))
    with pytest.raises(CountError, match="of 1 of which the counts do not add up"):
        summarise(spark, kind, other, units)


def test_the_page_and_the_json(
    conform: tuple[Conform, Store, list[Unit], Summary], tmp_path: Path
) -> None:
    *_, summary = conform
    write(summary, tmp_path)
    kept = json.loads((tmp_path / "summary.json").read_text())
    assert kept == json.loads(msgspec.json.encode(summary))
    shown = page(summary)
    assert f"{summary.cases:,} cases" in shown
    for finding in summary.findings:
        assert f'id="{finding.signature}"' in shown
    assert "VoteRequest" in shown
    assert "<script" not in shown
    assert "Not finished" not in shown
    few = msgspec.structs.replace(summary, done=1, findings=[])
    assert "Not finished" in page(few)
    assert "<p>None.</p>" in page(few)


def test_what_an_adapter_says_is_text_on_the_page(
    conform: tuple[Conform, Store, list[Unit], Summary],
) -> None:
    *_, summary = conform
    evil = msgspec.structs.replace(summary.findings[0], detail="<script>alert(1)</script>")
    shown = page(msgspec.structs.replace(summary, findings=[evil]))
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
