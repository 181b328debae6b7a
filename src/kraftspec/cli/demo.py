"""``kraftspec demo``: the project's main job, start to end, and what it proved."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.output import (
    EXIT_FINDINGS,
    console,
    counted,
    emit_json,
    json_option,
    progress,
    refusals,
    set_names,
)

if TYPE_CHECKING:
    from kraftspec.conformance.raw.results import Results

FAILURES_SHOWN_MAX = 10
NARROW_COLUMNS = 78


@click.command()
@click.option("--kafka/--no-kafka", default=None, help="Also run Kafka's own classes (needs Java).")
@json_option
def demo(kafka: bool | None, as_json: bool) -> None:
    """Check the specs, generate the codecs, verify the golden vectors.

    Every golden vector is run against our codec in both directions and, if there is a JDK and
    Maven, against Apache Kafka's own classes.
    """
    started = time.perf_counter()
    click.echo("Checking the schemas.", err=True)
    rows = [_check()]
    click.echo("Generating the codecs.", err=True)
    rows.append(_generate())
    adapters = ["kraftspec", *_kafka(kafka)]
    for adapter in adapters:
        rows += [_verify(adapter, set_name) for set_name in set_names()]
    seconds = time.perf_counter() - started
    if as_json:
        emit_json({"steps": rows, "seconds": round(seconds, 3)})
    else:
        _print(rows, seconds)
    if any(row["failures"] for row in rows):
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _kafka(is_requested: bool | None) -> list[str]:
    """Return Kafka's adapter where it can run; say what is missing where it cannot."""
    from kraftspec.conformance.adapters.registry import java_missing

    if is_requested is False:
        return []
    missing = java_missing()
    if missing is None:
        return ["kafka"]
    if is_requested:
        raise click.ClickException(missing)
    click.echo(f"Apache Kafka's own classes are not run: {missing}", err=True)
    return []


def _check() -> dict[str, Any]:
    from kraftspec.codegen.check import check_paths

    started = time.perf_counter()
    report = check_paths()
    for line in report.lines:
        click.echo(line, err=True)
    return {
        "step": "check specs",
        "set": "all",
        "messages": report.files,
        "failures": len(report.diagnostics),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _generate() -> dict[str, Any]:
    from importlib.resources import files
    from pathlib import Path

    from kraftspec.codegen.generate import generate, specs_sets
    from kraftspec.specs import specs_root

    out = Path(str(files("kraftspec.generated")))
    with refusals():
        sets = specs_sets(specs_root(), out, "kraftspec.generated")
        report = generate(sets, numbers=(specs_root(), out))
    for name in report.written:
        click.echo(f"wrote {name}", err=True)
    return {
        "step": "generate",
        "set": "all",
        "messages": report.messages,
        "pairs": report.pairs,
        "failures": 0,
        "seconds": round(report.seconds, 3),
    }


def _verify(adapter: str, set_name: str) -> dict[str, Any]:
    from kraftspec.conformance.adapters.harness import AdapterError
    from kraftspec.conformance.runner.run import adapter_named, run

    click.echo(f"Verifying {adapter} with the vectors of {set_name}.", err=True)
    try:
        with progress(f"Verifying {adapter}") as advance:
            filters = [f"set:{set_name}"]
            results = run(adapter_named(adapter), filters=filters, progress=advance)
    except AdapterError as error:
        raise click.ClickException(str(error)) from error
    _print_failures(results)
    return {
        "step": f"verify {results.adapter.name}",
        "set": set_name,
        "messages": len(results.messages),
        "pairs": results.pairs,
        "vectors": results.tests,
        "verdicts": results.counts.passed,
        "failures": results.counts.failed + results.counts.skipped + (results.tests == 0),
        "seconds": results.seconds,
    }


def _print_failures(results: Results) -> None:
    from kraftspec.conformance.runner.run import describe

    for failure in results.failures[:FAILURES_SHOWN_MAX]:
        click.echo(describe(failure), err=True)


def _print(rows: list[dict[str, Any]], seconds: float) -> None:
    from rich import box
    from rich.table import Table

    shown = console()
    table = Table(box=box.SIMPLE_HEAD, safe_box=True, padding=(0, 1, 0, 0), pad_edge=False)
    for title in ("step", "set"):
        table.add_column(title, no_wrap=True)
    # The numbers that matter most stay where the terminal is narrow.
    numbers = ["messages", "pairs", "vectors", "verdicts", "failures"]
    if shown.width < NARROW_COLUMNS:
        numbers = ["pairs", "vectors", "failures"]
    for title in (*numbers, "seconds"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        cells = [f"{row[name]:,}" if name in row else "" for name in numbers]
        style = "red" if row["failures"] else None
        table.add_row(row["step"], row["set"], *cells, f"{row['seconds']:.2f}", style=style)
    shown.print(table)
    failures = sum(row["failures"] for row in rows)
    verdict = counted(failures, "failure") if failures else "Nothing failed"
    shown.print(f"{verdict} in {seconds:.1f} s. Each vector has a verdict for each direction.")
