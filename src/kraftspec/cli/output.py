"""How every command speaks: tables for people, JSON for programs, one-line errors on stderr."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kraftspec.words import alike as alike  # noqa: PLC0414 - commands say it, too.
from kraftspec.words import counted as counted  # noqa: PLC0414 - as above

SECONDS_MAX = 86_400  # A day: longer is a mistake, and more than a poll can be told.

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FINDINGS = 1  # What was asked about is not as it should be. Wrong usage is 2, as click has it.
# A pipe has no width: lines are not folded there, and a table is as wide as it needs. COLUMNS in
# the environment gives it one, as it does for the help of commands.
PLAIN_WIDTH = 200


class _Seconds(click.FloatRange):
    """So many seconds: more than none, and a number."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the option; NaN, which is in every range, is wrong usage like what is outside."""
        seconds = float(super().convert(value, param, ctx))
        if isnan(seconds):
            self.fail("nan is not a number of seconds.", param, ctx)
        return seconds


SECONDS = _Seconds(0, SECONDS_MAX, min_open=True)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(command: _Command) -> _Command:
    """Give a command ``--json``, passed on as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Report as JSON.")(command)


def set_option(command: _Command) -> _Command:
    """Give a command ``--set``, passed on as ``set_name``."""
    return click.option(
        "--set",
        "set_name",
        default="kafka",
        show_default=True,
        metavar="SET",
        help="The set of specs the message is in, or a release of Kafka: kafka-3.9.1.",
        shell_complete=_complete_sets,
    )(command)


def sets_option(command: _Command) -> _Command:
    """Give a command ``--set``, as often as one likes, passed on as ``set_names``."""
    return click.option(
        "--set",
        "set_names",
        multiple=True,
        metavar="SET",
        help="Only this set; repeatable.",
        shell_complete=_complete_sets,
    )(command)


def message_argument(command: _Command) -> _Command:
    """Give a command ``MESSAGE``, completed by the shell from the names of the specs."""
    return click.argument("message", shell_complete=complete_messages)(command)


def _complete_sets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in set_names() if name.startswith(incomplete)]


def complete_messages(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a message of the set that ``--set`` names."""
    from kraftspec.specs import specs_root

    specs = (specs_root() / (ctx.params.get("set_name") or "kafka")).rglob("*.json")
    return sorted(path.stem for path in specs if path.stem.startswith(incomplete))


def set_names() -> list[str]:
    """Return the names of the sets that came with this package."""
    from kraftspec.specs import specs_root

    return sorted(path.name for path in specs_root().iterdir() if any(path.glob("**/*.json")))


def check_set(set_name: str) -> None:
    """Refuse the name of a set that there is not, as wrong usage."""
    if set_name not in set_names():
        known = ", ".join(set_names())
        raise click.BadParameter(f"there is no set {set_name!r}: {known}", param_hint="--set")


def specs_named(path: Path, hint: str) -> Path:
    """Return the path of specs, or of the release of Kafka that has this name, fetched if need be.

    A release that there is not is wrong usage.
    """
    from kraftspec.codegen.releases import ReleaseError, specs_path

    try:
        return specs_path(path)
    except ReleaseError as error:
        raise click.BadParameter(str(error), param_hint=hint) from error


def _set_directory(set_name: str) -> Path:
    """Return the directory of a set, or of a release of Kafka."""
    from kraftspec.specs import specs_root

    if set_name in set_names():
        return specs_root() / set_name
    release = specs_named(Path(set_name), "--set")
    if release == Path(set_name):
        check_set(set_name)  # It refuses the name.
    return release


def spec_paths(set_name: str) -> list[Path]:
    """Return the specs of a set or of a release of Kafka; wrong usage when there is none."""
    return sorted(_set_directory(set_name).rglob("*.json"))


def find_spec(message: str, set_name: str) -> Path:
    """Return the spec of a message by its name, or by its path when it ends in ``.json``.

    Wrong usage when there is none: the message names those that look alike.
    """
    if message.endswith(".json"):
        return Path(message)
    specs = {path.stem: path for path in spec_paths(set_name)}
    if message in specs:
        return specs[message]
    raise click.BadParameter(
        f"there is no message {message!r} in {set_name}{alike(message, specs)}"
    )


def printable(text: str) -> str:
    """Return what another program said without what a terminal would obey: escaped, as in repr."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1]
        for letter in text
    )


def explained(error: BaseException) -> str:
    """Return what an error says; of the system's own, also about which file."""
    if isinstance(error, OSError) and error.strerror:
        about = f"{error.filename}: " if error.filename else ""
        return f"{about}{error.strerror}"
    return str(error) or type(error).__name__


class RefusedError(click.ClickException):
    """Ends a command with 1: a line for each thing that is wrong, all of them marked alike.

    Not for BrokenPipeError, which a command lets pass: then nobody reads, and click ends quietly.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(explained(error))

    def show(self, file: Any = None) -> None:
        """Print it."""
        for line in printable(self.message).split("\n"):
            click.echo(f"Error: {line}", file=file, err=file is None)


def emit_json(value: Any) -> None:
    """Print a report as JSON."""
    import json

    text = json.dumps(value, indent=2, ensure_ascii=False)
    # Half a surrogate is no UTF-8, and as \ud800 it is JSON.
    click.echo(text.encode(errors="backslashreplace").decode())


def console(*, stderr: bool = False) -> Console:
    """Return a console: colours and the terminal's width on a terminal, plain elsewhere.

    COLUMNS in the environment is the width of either.
    """
    from rich.console import Console

    new = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not new.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        new.width = PLAIN_WIDTH
    return new


@contextmanager
def progress(title: str) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function of (what, number, count) that draws a bar on a terminal, and only there."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text, bar_, count = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    columns = (text, bar_, count, TimeElapsedColumn())
    shown = console(stderr=True)
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task(title)

        def advance(what: str, number: int, count: int) -> None:
            bar.update(task, description=f"{title}: {what}", completed=number, total=count)

        yield advance


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what a room refuses into lines on stderr and exit code 1, without a traceback.

    Mistakes in specs are printed bare, so that editors find their ``path:line:col:``.
    """
    from kraftspec.codegen.diagnostics import SpecErrors

    try:
        yield
    except SpecErrors as errors:
        for diagnostic in errors.diagnostics:
            click.echo(str(diagnostic), err=True)
        raise click.exceptions.Exit(EXIT_FINDINGS) from errors
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
