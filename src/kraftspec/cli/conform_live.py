"""``kraftspec conform live``: scenarios between a running KRaft node and peers that are played."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, TextIO

import click

from kraftspec.cli.exits import NO_VERDICT, UNEXPECTED_PASS, no_verdict, verdicts
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    alike,
    console,
    counted,
    emit_json,
    json_option,
    printable,
    progress,
)

if TYPE_CHECKING:
    from kraftspec.conformance.live.run import Result
    from kraftspec.conformance.live.scenario_files import Scenario
    from kraftspec.conformance.runner.known import KnownFailures

JOBS_MAX = 16


@click.command()
@click.option(
    "--target",
    metavar="kafka|kraftspec|exec:CMD",
    help="The node: Kafka's newest release, ours, or a program with the four verbs.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="TEXT",
    help="Only scenarios with this in their name; repeatable: with any of these.",
)
@click.option(
    "--scenarios",
    "paths",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of scenarios, in the place of the project's own; repeatable.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    default=1,
    show_default=True,
    help="Scenarios that are played at a time.",
)
@click.option(
    "--known",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML: the scenarios that the node is known to fail, as live/SCENARIO.",
)
@click.option(
    "--junit",
    type=click.File("w", encoding="utf-8", lazy=False),
    help="Write JUnit XML to this file as well.",
)
@click.option(
    "--html",
    type=click.File("w", encoding="utf-8", lazy=False),
    help="Write a page of the results to this file as well.",
)
@click.option(
    "--pcap",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a capture of each exchange with a problem into this directory.",
)
@click.option("--strict", is_flag=True, help="What a node should do counts as what it must do.")
@click.option("--list", "must_list", is_flag=True, help="List the scenarios and end.")
@click.option("--check", is_flag=True, help="Check the scenarios and end.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of scenario files and end.")
@json_option
def live(
    target: str | None,
    filters: tuple[str, ...],
    paths: tuple[Path, ...],
    jobs: int,
    known: Path | None,
    junit: TextIO | None,
    html: TextIO | None,
    pcap: Path | None,
    strict: bool,
    must_list: bool,
    check: bool,
    schema: bool,
    as_json: bool,
) -> None:
    """Play the peers of a running KRaft node, and judge what it does.

    The node is formatted, started, killed and wiped for each scenario. Exit codes: 0 as it must be,
    1 a scenario failed, 2 one passed that is known to fail, 3 no verdict.
    """
    from kraftspec.conformance.live.recorded import own_scenarios
    from kraftspec.conformance.live.scenario_files import read_scenarios, schema_text, step_places
    from kraftspec.yaml_files import YamlFileError

    if schema:
        click.echo(schema_text(), nl=False)
        return
    try:
        scenarios = read_scenarios(list(paths)) if paths else own_scenarios()
    except (YamlFileError, OSError, ValueError) as error:
        raise no_verdict(error) from error
    chosen = _chosen(scenarios, filters)
    if must_list or check:
        for scenario in chosen if must_list else []:
            click.echo(f"{scenario.name}: {scenario.about}")
        if check:
            click.echo(counted(len(chosen), "scenario"))
        return
    from kraftspec.conformance.live.junit import junit as as_junit
    from kraftspec.conformance.live.run import excuse, locate

    command = _command(target)
    excuses = _excuses(known)
    repeat = _repeat(target or "", paths, known)
    results, ended_early = _played(chosen, command, jobs)
    excuse(results, excuses)
    locate(results, step_places(list(paths)))
    if junit is not None:
        junit.write(as_junit(target or "", results, strict=strict))
    if html is not None:
        from kraftspec.conformance.live.page import page

        html.write(page(target or "", repeat, results))
    if pcap is not None:
        pcap.mkdir(parents=True, exist_ok=True)
        for result in results:
            if result.problems:
                path = pcap / f"{result.scenario}.pcap"
                path.write_bytes(result.transcript.pcap(result.ports))
    warnings = excuses.warnings(whole=not (filters or paths or ended_early))
    for warning in warnings:
        click.echo(f"Warning: {printable(warning)}", err=True)
    if as_json:
        emit_json({"target": target, "scenarios": [result.to_json() for result in results]})
    else:
        _print(target or "", repeat, results)
    if ended_early:
        raise ended_early
    raise click.exceptions.Exit(_exit_code(results, strict=strict, warnings=warnings))


def _played(
    chosen: list[Scenario], command: list[str], jobs: int
) -> tuple[list[Result], click.exceptions.Exit | None]:
    """Return the results, and how the command ends if not all were played."""
    from kraftspec.conformance.cluster import ClusterError
    from kraftspec.conformance.live.run import run_all
    from kraftspec.conformance.live.scenario_files import read_roles

    results: list[Result] = []
    ended_early: click.exceptions.Exit | None = None
    try:
        with (
            verdicts("interrupted: the others have no verdict", (ClusterError, OSError)),
            progress("Playing") as advance,
        ):
            # What has come stays in the list where it ends early.
            results.extend(run_all(chosen, command, read_roles(), advance, jobs=jobs))
    except click.exceptions.Exit as ended:
        ended_early = ended
    order = [scenario.name for scenario in chosen]
    results.sort(key=lambda result: order.index(result.scenario))
    return results, ended_early


def _excuses(path: Path | None) -> KnownFailures:
    from kraftspec.conformance.runner.known import KnownFailures

    try:
        return KnownFailures() if path is None else KnownFailures.read(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _exit_code(results: list[Result], *, strict: bool, warnings: list[str]) -> int:
    """Return the exit code; with ``strict`` a warning and an advice that is not met count."""
    verdicts = {result.verdict for result in results}
    advised = any(result.problems and result.verdict == "passed" for result in results)
    if "no verdict" in verdicts:
        return NO_VERDICT
    if "failed" in verdicts or (strict and (advised or warnings)):
        return EXIT_FINDINGS
    return UNEXPECTED_PASS if "unexpected pass" in verdicts else 0


def _chosen(scenarios: list[Scenario], filters: tuple[str, ...]) -> list[Scenario]:
    chosen = [one for one in scenarios if not filters or any(text in one.name for text in filters)]
    if not chosen:
        near = alike(filters[0], [one.name for one in scenarios]) if filters else ""
        raise no_verdict(f"no scenario has {' or '.join(filters)!r} in its name{near}")
    return chosen


def _command(target: str | None) -> list[str]:
    from kraftspec.conformance.live.target import BUILT_IN

    if target in BUILT_IN:
        return BUILT_IN[target]
    if target is None:
        raise click.UsageError(f"name a target: --target {', '.join(BUILT_IN)} or exec:CMD")
    if not target.startswith("exec:") or not target[5:].strip():
        known = ", ".join(BUILT_IN)
        raise click.BadParameter(
            f"{target!r} is none of {known} and exec:CMD", param_hint="--target"
        )
    program, *rest = shlex.split(target[5:])
    path = Path(program)
    if not path.exists() and which(program) is None:
        raise click.BadParameter(f"there is no program {program!r}", param_hint="--target")
    # Not resolved: the interpreter of a virtual environment is a link, and says which by its path.
    return [str(path.absolute()) if path.exists() else program, *rest]


def _repeat(target: str, paths: tuple[Path, ...], known: Path | None) -> str:
    files = "".join(f" --scenarios {shlex.quote(str(path))}" for path in paths)
    files += f" --known {shlex.quote(str(known))}" if known else ""
    return f"kraftspec conform live --target {shlex.quote(target)}{files}"


def _print(target: str, repeat: str, results: list[Result]) -> None:
    shown = console()
    for result in results:
        if result.error:
            shown.print(
                f"NO VERDICT {result.scenario}, {printable(result.error.strip())}", soft_wrap=True
            )
        for problem in result.problems:
            verdict = "should"
            if problem.level == "must":
                verdict = "FAILED" if result.known is None else "known"
            shown.print(
                f"{verdict} {result.scenario}, {problem.place}: "
                f"{printable(problem.detail)} [{problem.cites}]",
                soft_wrap=True,
            )
        if result.verdict == "unexpected pass":
            shown.print(
                f"passes, though it is known to fail: {result.scenario}: "
                f"{printable(result.known or '')}",
                soft_wrap=True,
            )
        if not result.problems or result.verdict == "known failure":
            continue
        for line in result.transcript.lines():
            shown.print(f"  {printable(line)}", soft_wrap=True)
        if result.output and result.failed:
            shown.print("  the node's own output ends so:")
            for line in result.output.splitlines()[-10:]:
                shown.print(f"    {printable(line)}", soft_wrap=True)
        shown.print(f"  repeat: {repeat} --filter {result.scenario}", soft_wrap=True)
    number: Counter[str] = Counter(result.verdict for result in results)
    known = "".join(
        f"{number[verdict]} {words}, "
        for verdict, words in (
            ("known failure", "known to fail"), ("unexpected pass", "passed unexpectedly"),
            ("no verdict", "without a verdict"),
        )
        if number[verdict]
    )  # fmt: skip
    advice = sum(problem.level == "should" for one in results for problem in one.problems)
    seconds = sum(result.seconds for result in results)
    shown.print(
        f"{target}: {counted(len(results), 'scenario')}: {number['passed']} passed, "
        f"{number['failed']} failed, {known}{advice} `should` not met, {seconds:.0f} s",
        soft_wrap=True,
    )
