"""Plays all exchanges with every client that has a driver, and writes docs/clients-results.md.

What a client did is kept in ``build/clients/NAME.json``, so that the command may be interrupted and
run again. It plays exchanges that are new or have changed, and all when a driver has. The exit code
is 0 if all is as it must be or as it is known to be, 1 if an exchange failed that is not known to,
3 if a client could not be played: then the page is left as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.clients.clients import DIRECTORY, known_file, specs
from kraftspec.conformance.clients.exchange_files import Exchange, own_files, read_exchanges
from kraftspec.conformance.clients.run import (
    DISCLOSED_LATER,
    NOT_JUDGED,
    Result,
    Verdict,
    excuse,
)
from kraftspec.conformance.runner.known import known_failures
from kraftspec.words import counted

PAGE = Path("docs/clients-results.md")
RESULTS = Path("build/clients")
MARK = "<!-- results -->"
TIMEOUT_S = 3.0
_EMBARGOED = "KS-"  # How the reason of a failure begins that has not been disclosed yet.
_ORDER: tuple[Verdict, ...] = (
    "correct", "survives", "gives up", "wrong", "loses", "doubles", "hangs", "exhausts", "crashes",
    *NOT_JUDGED,
)  # fmt: skip


class Saved(msgspec.Struct, kw_only=True):
    """How a client did: what ``kraftspec conform clients --json`` prints."""

    client: str
    named: str
    exchanges: list[Result]
    played: dict[str, str] = {}  # Exchange → the digest of what was played.

    def new(self) -> list[str]:
        """Return what failed and is not known to."""
        return [
            f"{one.exchange}: {one.verdict}: {one.detail}"
            for one in self.exchanges
            if not one.passed and one.known is None
        ]


def groups() -> dict[str, str]:
    """Return the group of each exchange: its file."""
    return {one.name: path.stem for path in own_files() for one in read_exchanges([path])}


def played(client: str, directory: Path, *, again: bool) -> Saved | None:
    """Return how a client did, played now where that is not known; None where it cannot be."""
    path = directory / f"{client}.json"
    is_kept = path.exists() and not again and path.stat().st_mtime > _changed(client)
    saved = read(path) if is_kept else None
    digests = {one.name: _digest(one) for one in read_exchanges(own_files())}
    missing = [name for name in digests if saved and saved.played.get(name) != digests[name]]
    if saved is None or missing:
        command = [sys.executable, "-m", "kraftspec", "conform", "clients", "--client", client]
        command += [word for name in missing for word in ("--filter", name)]
        timeout = ["--timeout-s", f"{TIMEOUT_S:g}"]
        ended = subprocess.run([*command, *timeout, "--json"], stdout=subprocess.PIPE, check=False)
        if not ended.stdout:
            return None
        now = msgspec.json.decode(ended.stdout, type=Saved)
        earlier = saved.exchanges if saved else []
        by_name = {one.exchange: one for one in (*earlier, *now.exchanges)}
        now.exchanges = [by_name[name] for name in digests]
        now.played = digests
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(now))
    return read(path)


def _digest(exchange: Exchange) -> str:
    return hashlib.sha256(msgspec.json.encode(exchange)).hexdigest()


def _changed(client: str) -> float:
    """Return when the client's driver was changed last."""
    spec = find(client, DIRECTORY)
    folders = [Path(spec.folder), *(DIRECTORY / name for name in spec.shares)]
    return max(path.stat().st_mtime for folder in folders for path in folder.rglob("*"))


def read(path: Path) -> Saved:
    """Read how a client did; what is known of it is as its file says now."""
    saved = msgspec.json.decode(path.read_bytes(), type=Saved)
    for one in saved.exchanges:
        one.known = None
    excuse(saved.exchanges, known_failures(saved.client, known_file(saved.client)))
    return saved


def render(results: Sequence[Saved]) -> str:
    """Return the tables."""
    shown = [one for one in _ORDER if any(one == r.verdict for s in results for r in s.exchanges)]
    lines = [f"| client | {' | '.join(shown)} |", "| --- |" + " ---: |" * len(shown)]
    for saved in results:
        number = Counter(result.verdict for result in saved.exchanges)
        counts = " | ".join(str(number[verdict] or "") for verdict in shown)
        lines.append(f"| {saved.named} | {counts} |")
    lines += ["", "## By group", "", *_by_group(results), "", "## What fails"]
    for saved in results:
        lines += ["", f"### {saved.named}", "", *_failures(saved)]
    return "\n".join(lines)


def _by_group(results: Sequence[Saved]) -> list[str]:
    group_of = groups()
    names = list(dict.fromkeys(group_of.values()))
    lines = [f"| client | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for saved in results:
        cells = [
            _cell([one for one in saved.exchanges if group_of[one.exchange] == name])
            for name in names
        ]
        lines.append(f"| {saved.client} | {' | '.join(cells)} |")
    return lines


def _cell(results: Sequence[Result]) -> str:
    judged = [one for one in results if one.verdict not in NOT_JUDGED]
    failed = Counter(one.verdict for one in judged if not one.passed)
    words = [f"{failed[verdict]} {verdict}" for verdict in _ORDER if failed[verdict]]
    return ", ".join([f"{sum(one.passed for one in judged)} of {len(judged)}", *words])


def _failures(saved: Saved) -> list[str]:
    """Return what is to be said of failures; of those that are embargoed, their number alone."""
    failed = [one for one in saved.exchanges if not one.passed]
    if not failed:
        return ["Nothing."]
    links = {
        one.reason: one.issue
        for one in known_failures(saved.client, known_file(saved.client)).entries
    }
    by_reason: dict[tuple[Verdict, str], list[str]] = {}
    for one in failed:
        by_reason.setdefault((one.verdict, one.known or ""), []).append(one.exchange)
    lines = ["| verdict | exchanges | why |", "| --- | --- | --- |"]
    for (verdict, reason), exchanges in by_reason.items():
        is_kept = reason.startswith(_EMBARGOED) or (not reason and verdict in DISCLOSED_LATER)
        names = counted(len(exchanges), "exchange") if is_kept else ", ".join(exchanges)
        why = reason.partition(":")[0] if is_kept else f"{reason} ([link]({links.get(reason, '')}))"
        lines.append(f"| {verdict} | {names} | {why if reason else 'not known yet'} |")
    return lines


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="*", help="play these alone, and write no page")
    parser.add_argument("--again", action="store_true", help="play what was played already")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    names = [spec.name for spec in specs()]
    results: list[Saved] = []
    for client in options.clients or names:
        saved = played(client, options.results, again=options.again)
        if saved is None:
            sys.stdout.write(f"{client}: it was not played\n")
            continue
        results.append(saved)
        new = saved.new()
        sys.stdout.write(f"{saved.named}: {counted(len(new), 'failure')} not known\n")
        sys.stdout.writelines(f"  {line}\n" for line in new)
        sys.stdout.flush()
    if len(results) < len(options.clients or names):
        return 3
    if not options.clients:
        head = options.page.read_text("utf-8").partition(MARK)[0]
        options.page.write_text(f"{head}{MARK}\n\n{render(results)}\n", "utf-8")
    return 1 if any(saved.new() for saved in results) else 0


if __name__ == "__main__":
    sys.exit(main())
