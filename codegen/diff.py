"""What does a change of specs do to released versions? Two sides in, a verdict on each message out.

A side is a directory, a published jar, a release of Kafka or a git revision. The rules are in
``evolution``.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kraftspec.codegen.evolution import Change, compare_messages, released_versions
from kraftspec.codegen.importer import SpecImportError, read_jar, without_zookeeper
from kraftspec.codegen.importer import render as render_spec
from kraftspec.codegen.model import Message
from kraftspec.codegen.reader import NOT_MESSAGES, check_text
from kraftspec.codegen.releases import ReleaseError, specs_path
from kraftspec.codegen.versions import Versions

Verdict = Literal["breaking", "removed", "compatible", "new", "unchanged"]
STYLES: Final[dict[Verdict, str]] = {
    "breaking": "bold red",
    "removed": "red",
    "compatible": "green",
    "new": "cyan",
    "unchanged": "dim",
}

EXIT_FINE: Final = 0
EXIT_BREAKING: Final = 1
EXIT_USAGE: Final = 2  # For the command line: a side that cannot be loaded (``SideError``).

SIDES: Final = "a directory, a jar, a release of Kafka or a git revision"
GIT_PATH_DEFAULT: Final = "specs/kafka"
# Types that share one space of apiKeys over all modules; each coordinator has its own.
KEYED_TYPES: Final = ("request", "response", "metadata")
WIDTH_PLAIN: Final = 200  # A pipe has no width; names are never folded.


class SideError(Exception):
    """A side of a diff cannot be loaded; the text names the side, the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class MessageDiff:
    """The verdict on one message. The versions of a side that lacks it are None."""

    name: str
    verdict: Verdict
    old_versions: Versions | None
    new_versions: Versions | None
    changes: tuple[Change, ...] = ()

    @property
    def breaking(self) -> bool:
        """Whether a rule refuses what happened to the message."""
        return any(change.breaking for change in self.changes)


@dataclass(frozen=True, slots=True)
class DiffReport:
    """The verdicts on all messages of two sides, in order of name."""

    old: str
    new: str
    messages: tuple[MessageDiff, ...]

    @property
    def breaking(self) -> bool:
        """Whether a rule refuses anything at all."""
        return any(message.breaking for message in self.messages)

    @property
    def counts(self) -> dict[str, int]:
        """How many messages got each verdict, worst first."""
        counts = Counter(message.verdict for message in self.messages)
        return {verdict: counts[verdict] for verdict in STYLES}

    @property
    def exit_code(self) -> int:
        """0 when nothing is breaking, else 1."""
        return EXIT_BREAKING if self.breaking else EXIT_FINE

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON; the messages include the unchanged ones."""
        return {
            "old": self.old,
            "new": self.new,
            "breaking": self.breaking,
            "counts": self.counts,
            "messages": [_message_json(message) for message in self.messages],
        }


def _message_json(message: MessageDiff) -> dict[str, Any]:
    return {
        "name": message.name,
        "verdict": message.verdict,
        "breaking": message.breaking,
        "oldVersions": _versions(message.old_versions) or None,
        "newVersions": _versions(message.new_versions) or None,
        "findings": [
            {
                "rule": change.rule,
                "breaking": change.breaking,
                "path": change.path,
                "what": change.what,
                "mend": change.mend,
            }
            for change in message.changes
        ],
    }


def _versions(versions: Versions | None) -> str:
    return "" if versions is None else str(versions)


def run_diff(old: str, new: str) -> DiffReport:
    """Load both sides and compare them. Raises ``SideError``."""
    return diff_sets(load_side(old), load_side(new), old_label=old, new_label=new)


def diff_sets(
    old: Mapping[str, Message],
    new: Mapping[str, Message],
    *,
    old_label: str = "old",
    new_label: str = "new",
) -> DiffReport:
    """Compare two sets of messages, both by name."""
    keys: dict[tuple[str, int | None], str] = {
        (message.type, message.api_key): name
        for name, message in old.items()
        if message.type in KEYED_TYPES
    }
    diffs = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None and after is not None:
            diffs.append(_new(after, keys.get((after.type, after.api_key))))
        elif after is None and before is not None:
            diffs.append(_removed(before))
        elif before is not None and after is not None:
            diffs.append(diff_messages(before, after))
    return DiffReport(old_label, new_label, tuple(diffs))


def diff_messages(old: Message, new: Message) -> MessageDiff:
    """Compare two specs of one message; ``about`` texts do not count."""
    versions = (old.valid_versions, new.valid_versions)
    if _facts(old) == _facts(new):
        return MessageDiff(new.name, "unchanged", *versions)
    changes = sorted(compare_messages(old, new), key=lambda change: not change.breaking)
    verdict: Verdict = "breaking" if changes[0].breaking else "compatible"
    return MessageDiff(new.name, verdict, *versions, tuple(changes))


def _new(message: Message, holder: str | None) -> MessageDiff:
    changes: tuple[Change, ...] = ()
    if holder is not None:
        changes = (
            Change("api-key-reused", "", f"{message.type} key {message.api_key} was {holder}"),
        )
    verdict: Verdict = "breaking" if changes else "new"
    return MessageDiff(message.name, verdict, None, message.valid_versions, changes)


def _removed(message: Message) -> MessageDiff:
    changes: tuple[Change, ...] = ()
    released = released_versions(message)
    if not released.empty:
        changes = (Change("message-removed", "", f"versions {released} are gone"),)
    return MessageDiff(message.name, "removed", message.valid_versions, None, changes)


def _facts(message: Message) -> str:
    """Return the content of a spec without its prose, in a form in which NaN equals NaN."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(inner) for key, inner in sorted(value.items()) if key != "about"}
        return [bare(inner) for inner in value] if isinstance(value, list | tuple) else value

    return repr(bare(asdict(message)))


# Sides.


def load_side(spec: str) -> dict[str, Message]:
    """Load every message of a directory, a spec file, a jar, a release, or a git revision.

    What exists on disk wins, then ``4.3.1`` or ``kafka-4.3.1`` is that release of Kafka. Else it is
    ``REV`` or ``REV:PATH`` of the repository around the current directory, and PATH (default
    ``specs/kafka``) is taken from its top. Raises ``SideError``.
    """
    if not spec:
        raise SideError(f"a side of a diff is empty; give {SIDES}")
    messages: dict[str, Message] = {}
    origins: dict[str, str] = {}
    for label, text in _texts(spec):
        message, diagnostics = check_text(text, label)
        if message is None or diagnostics:
            lines = "\n".join(map(str, diagnostics))
            raise SideError(f"{spec}: not a valid spec; correct it first\n{lines}")
        if message.name in messages:
            raise SideError(
                f"{spec}: {message.name} is both in {origins[message.name]} and in {label}; "
                "name one set, for example specs/kafka"
            )
        messages[message.name] = message
        origins[message.name] = label
    if not messages:
        raise SideError(f"{spec}: no spec (*.json) in it; check the path")
    return messages


def _texts(spec: str) -> Iterator[tuple[str, str]]:
    try:
        path = specs_path(spec)
    except ReleaseError as error:
        raise SideError(str(error)) from error
    if path.is_dir():
        files = sorted(path.rglob("*.json"))
        yield from ((str(f), _read(f)) for f in files if f.name not in NOT_MESSAGES)
    elif path.is_file() and zipfile.is_zipfile(path):
        yield from _jar_texts(path)
    elif path.is_file() and path.suffix == ".json":
        yield str(path), _read(path)
    elif path.exists():
        raise SideError(f"{spec}: neither a directory, nor a jar, nor a spec (*.json)")
    else:
        yield from _git_texts(spec)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SideError(f"{path}: cannot be read as UTF-8 text: {error}") from error


def _jar_texts(jar: Path) -> Iterator[tuple[str, str]]:
    try:
        specs = read_jar(jar)
    except (SpecImportError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise SideError(f"{jar}: {error}; give a jar that Apache Kafka published") from error
    for spec in specs:
        yield f"{spec['name']}.json", render_spec(without_zookeeper(spec))


def _git_texts(spec: str) -> Iterator[tuple[str, str]]:
    revision, _, path = spec.partition(":")
    path = path.strip("/") or GIT_PATH_DEFAULT
    top = _git(spec, "rev-parse", "--show-toplevel").decode().strip()
    commit = _git(
        spec, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
    )
    archive = _git(spec, "-C", top, "archive", "--format=tar", commit.decode().strip(), "--", path)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in sorted(tar, key=lambda member: member.name):
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and name.endswith(".json") and name not in NOT_MESSAGES:
                yield f"{revision}:{member.name}", _decode(member.name, content.read())


def _decode(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SideError(f"{name}: cannot be read as UTF-8 text: {error}") from error


def _git(spec: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=True)
    except FileNotFoundError:
        raise SideError(f"{spec}: no such file or directory, and there is no git here") from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip() or "no such revision"
        raise SideError(
            f"{spec}: no such file or directory, and git finds no specs under that name "
            f"({reason}); give {SIDES} "
            f"(REV or REV:PATH, default path {GIT_PATH_DEFAULT})"
        ) from error
    return done.stdout


# The report as text.


def render(report: DiffReport, console: Console) -> None:
    """Print a table of the messages that differ, then each change, the breaking ones first."""
    differing = [message for message in report.messages if message.verdict != "unchanged"]
    differing.sort(key=lambda message: list(STYLES).index(message.verdict))
    if differing:
        width = console.width
        console.width = width if console.is_terminal else WIDTH_PLAIN
        console.print(_table(differing))
        console.width = width
    for message in differing:
        for change in message.changes:
            _print_change(console, message.name, change)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items())
    console.print(Text(f"{report.old} → {report.new}: {counts}"), soft_wrap=True)


def _table(messages: list[MessageDiff]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, safe_box=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("message", overflow="fold")
    for title in ("old versions", "new versions"):
        table.add_column(title, no_wrap=True)
    for title in ("breaking", "notes"):
        table.add_column(title, justify="right")
    for message in messages:
        breaking = sum(change.breaking for change in message.changes)
        table.add_row(
            Text(message.verdict, STYLES[message.verdict]),
            message.name,
            _versions(message.old_versions),
            _versions(message.new_versions),
            str(breaking or ""),
            str(len(message.changes) - breaking or ""),
        )
    return table


def _print_change(console: Console, name: str, change: Change) -> None:
    where = f"{name}.{change.path}" if change.path else name
    style = STYLES["breaking" if change.breaking else "compatible"]
    line = Text.assemble((change.rule, style), f"  {where}: {change.what}")
    console.print(line, soft_wrap=True)
    console.print(Text(f"    {change.mend}", "dim"), soft_wrap=True)
