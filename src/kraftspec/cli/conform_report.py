"""``kraftspec conform report``, ``compare``, ``badge`` and ``export``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from kraftspec.cli.exits import force_option, refuse_existing
from kraftspec.cli.output import (
    EXIT_FINDINGS,
    console,
    counted,
    emit_json,
    json_option,
    progress,
    refusals,
)

CHANGES_SHOWN_MAX = 20  # Of a kind; --json has them all.

_RESULTS = click.Path(exists=True, dir_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("results", nargs=-1, type=_RESULTS)
@click.option(
    "--all",
    "run_every",
    is_flag=True,
    help="Run every adapter that this machine has, and report on those runs.",
)
@click.option(
    "--out",
    type=_FILE,
    default=Path("report.html"),
    show_default=True,
    help="The page; with --all the results and badges are beside it.",
)
@click.option("--screenshot", type=_FILE, help="A PNG of the page's top, by headless Chromium.")
def report(results: tuple[Path, ...], run_every: bool, out: Path, screenshot: Path | None) -> None:
    """Make one HTML page of the results of runs.

    RESULTS are outputs of `kraftspec conform run --json`, one file a run. The page needs no
    network.
    """
    from kraftspec.conformance.report import read_results
    from kraftspec.conformance.report.badge import badge as badge_svg
    from kraftspec.conformance.report.browser import BrowserError, size_px_of
    from kraftspec.conformance.report.browser import screenshot as draw
    from kraftspec.conformance.report.campaign import run_all
    from kraftspec.conformance.report.matrix import LeftOut, flags_of, page
    from kraftspec.conformance.vectors import vectors_root

    if run_every == bool(results):
        raise click.UsageError("give either RESULTS or --all")
    left_out: list[LeftOut] = []
    with refusals():
        if run_every:
            with progress("Running") as advance:
                runs, left_out = run_all(out.parent, _spoken(advance))
        else:
            runs = [read_results(path) for path in results]
        for one in left_out:
            click.echo(f"left out {one.name}: {one.reason}", err=True)
        html = page(runs, left_out=left_out, flags=flags_of(runs, vectors_root()))
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(html, encoding="utf-8")
        if run_every:
            for run in runs:
                svg = out.with_name(f"{run.adapter.name}.svg")
                svg.write_text(badge_svg(run), encoding="utf-8")
    click.echo(f"wrote {out}: {counted(len(runs), 'run')}, {counted(len(html), 'character')}")
    if screenshot is not None:
        try:
            width_px, height_px = size_px_of(len(runs))
            draw(out, screenshot, width_px=width_px, height_px=height_px)
        except BrowserError as error:
            raise click.ClickException(str(error)) from error
        click.echo(f"wrote {screenshot}")


def _spoken(advance: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
    """Say a line an adapter where no bar is drawn: a build may take minutes."""

    def say(what: str, number: int, count: int) -> None:
        advance(what, number, count)
        if not console(stderr=True).is_terminal:
            click.echo(f"running {what}, {number + 1} of {count}", err=True)

    return say


@click.command()
@click.argument("old", type=_RESULTS)
@click.argument("new", type=_RESULTS)
@json_option
def compare(old: Path, new: Path, as_json: bool) -> None:
    """Compare the results of two runs.

    Exit code 1: a test newly fails, or is no longer answered.
    """
    from kraftspec.conformance.report import read_results
    from kraftspec.conformance.report.compare import compare as hold

    with refusals():
        changes = hold(read_results(old), read_results(new))
    if as_json:
        emit_json(changes.to_json())
    else:
        pairs = {
            "added": [f"{spec}/{message} v{version}" for spec, message, version in changes.added],
            "gone": [f"{spec}/{message} v{version}" for spec, message, version in changes.gone],
        }
        _print_changes("newly failing", [str(one) for one in changes.newly_failing])
        _print_changes("answered less", [str(one) for one in changes.answered_less])
        _print_changes("no longer answered", [str(one) for one in changes.no_longer_answered])
        _print_changes("newly passing", [str(one) for one in changes.newly_passing])
        _print_changes("now known to fail", [str(one) for one in changes.now_known])
        for title, lines in pairs.items():
            _print_changes(title, lines)
        click.echo("regressed" if changes.regressed else "no regression")
    raise click.exceptions.Exit(EXIT_FINDINGS if changes.regressed else 0)


def _print_changes(title: str, lines: list[str]) -> None:
    if not lines:
        return
    click.echo(f"{title}: {len(lines):,}")
    for line in lines[:CHANGES_SHOWN_MAX]:
        click.echo(f"  {line}")
    if len(lines) > CHANGES_SHOWN_MAX:
        click.echo(f"  and {len(lines) - CHANGES_SHOWN_MAX:,} more; --json has them all")


@click.command()
@click.argument("results", type=_RESULTS)
@click.option("--out", type=_FILE, help="Where the SVG goes.  [default: standard output]")
def badge(results: Path, out: Path | None) -> None:
    """Make an SVG badge of the results of a run."""
    from kraftspec.conformance.report import read_results
    from kraftspec.conformance.report.badge import badge as badge_svg

    with refusals():
        svg = badge_svg(read_results(results))
        if out is None:
            click.echo(svg, nl=False)
        else:
            out.write_text(svg, encoding="utf-8")


@click.command()
@click.option("--out", type=_FILE, help="The archive.  [default: kraftspec-vectors-VERSION.tar.gz]")
@force_option
def export(out: Path | None, force: bool) -> None:
    """Pack the golden vectors into an archive, with schemas and licence.

    The same vectors give the same archive.
    """
    from kraftspec.conformance.vectors.export import archive_name, write_archive

    target = out or Path(f"{archive_name()}.tar.gz")
    with refusals():
        refuse_existing(target, force=force)
        count = write_archive(target)
    click.echo(f"wrote {target}: {counted(count, 'file')}, {target.stat().st_size:,} bytes")
