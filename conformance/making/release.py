"""``make release RELEASE=4.4.0``: one release of Apache Kafka, from its jars to the page about it.

A release that is newer than ``specs/kafka``, or the same, goes into the checkout: specs, numbers,
codecs, vectors. An older one is made and proven in ``build/releases/<release>`` alone. Results,
the times of the steps and the comparison with the release before are there in both cases.

The steps that are done are listed in ``build/releases/<release>/steps.json``: a run that was
stopped goes on after the last of them. ``--again`` begins anew.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import UNSET

from kraftspec.codegen.diff import MessageDiff, run_diff
from kraftspec.codegen.generate import MessageSet, generate, specs_sets
from kraftspec.codegen.history.__main__ import update as update_history
from kraftspec.codegen.importer import import_specs
from kraftspec.codegen.releases import known_releases, numbers, release_specs
from kraftspec.conformance.adapters.registry import adapters, kafka_adapter
from kraftspec.conformance.making.make import make
from kraftspec.conformance.making.numbers import numbers_of, write_numbers
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.report import read_results
from kraftspec.conformance.runner.known import known_file
from kraftspec.conformance.vectors import read_vectors
from kraftspec.specs import kafka_release

_KRAFTSPEC = (sys.executable, "-m", "kraftspec")


class ReleaseWork:
    """The directories of one release, and its steps in their order."""

    def __init__(self, release: str, base: str, checkout: Path, name: str = "") -> None:
        """Prepare the directories; ``name`` is a part of the names of the messages to take."""
        self.release = release
        self.name = name
        self.base = base
        self.checkout = checkout
        self.work = checkout / "build" / "releases" / release
        self.adopted = numbers(release) >= numbers(kafka_release())
        root = checkout if self.adopted else self.work
        self.specs = root / "specs"
        self.vectors = root / "conformance" / "vectors" if self.adopted else self.work / "vectors"
        self.codecs = root / "generated" / "kafka" if self.adopted else self.work / self._package
        self.results = self.work / "results"
        self.steps: dict[str, Callable[[], str]] = {
            "specs": self.import_specs,
            "diff": self.diff,
            "numbers": self.numbers,
            "codecs": self.generate,
            "pages": self.write_pages,
            "vectors": self.make_vectors,
            "base vectors": self.make_base_vectors,
            "captured frames": self.capture,
            "adapters": self.run_adapters,
            "node vectors": self.record_node_vectors,
            "page": self.write_page,
        }

    @property
    def _package(self) -> str:
        return f"kafka_{self.release.replace('.', '_')}"

    def run(self) -> None:
        """Take the steps that are not done, and say what each did."""
        self.work.mkdir(parents=True, exist_ok=True)
        kept = self.work / "steps.json"
        done: dict[str, Any] = {}
        if kept.exists():
            done = json.loads(kept.read_text("utf-8"))
        for number, (name, step) in enumerate(self.steps.items(), 1):
            where = f"{number}/{len(self.steps)} {name}"
            if name in done:
                click.echo(f"{where}: was done; {done[name]['what']}")
                continue
            click.echo(f"{where} …")
            started = time.monotonic()
            what = step()
            done[name] = {"what": what, "seconds": round(time.monotonic() - started, 1)}
            kept.write_text(json.dumps(done, indent=2) + "\n", "utf-8")
            click.echo(f"{where}: {what}, {done[name]['seconds']:.0f} s")

    # ------------------------------------------------------------------------------ the steps

    def import_specs(self) -> str:
        """Bring the schemas of the jars into the set ``kafka``."""
        kafkas = {path.name: path for path in (self.specs / "kafka").glob("*/*.json")}
        copies = {  # The drafts take some messages as they are in Kafka.
            draft: kafkas[draft.name]
            for draft in self.specs.glob("kip-*/*.json")
            if draft.name in kafkas and draft.read_bytes() == kafkas[draft.name].read_bytes()
        }
        report = import_specs(release_specs(self.release), self.specs / "kafka")
        for path in report.removed:  # The release dropped the message; the history keeps it.
            (self.specs / "kafka" / path).unlink()
        for draft, kafka in copies.items():
            shutil.copyfile(kafka, draft)
        return (
            f"{len(report.added)} added, {len(report.changed)} changed, "
            f"{len(report.unchanged)} unchanged, {len(report.removed)} removed"
        )

    def diff(self) -> str:
        """Compare with the release before."""
        report = run_diff(self.base, str(self.specs / "kafka"))
        self._write("diff.json", report.to_json())
        return ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items())

    def numbers(self) -> str:
        """Write error codes and API keys as the classes have them; keep those of the base."""
        with kafka_adapter(self.release) as kafka, kafka_adapter(self.base) as base:
            self._write("numbers.json", {"new": _new_numbers(numbers_of(base), numbers_of(kafka))})
            if not self.adopted:
                return "compared with the base's"
            changed = write_numbers(kafka, self.specs)
        return f"changed: {', '.join(changed) or 'nothing'}"

    def generate(self) -> str:
        """Render the codecs."""
        if self.adopted:
            sets = specs_sets(self.specs, self.codecs.parent, "kraftspec.generated")
            report = generate(sets, numbers=(self.specs, self.codecs.parent))
        else:
            one = MessageSet("kafka", self.specs / "kafka", self.codecs, self._package)
            report = generate([one])
        return f"{report.messages} messages, {report.pairs} pairs, {len(report.written)} written"

    def write_pages(self) -> str:
        """Write the history, the table of header versions, and the schema of the proxy's rules."""
        if not self.adopted:
            return "those of an older release are written already"
        read = update_history(scratch=False)
        self._call([*_KRAFTSPEC, "spec", "headers", "--write", "docs/headers.md"], None)
        schema = self.checkout / "proxy" / "rules.schema.json"
        self._call([*_KRAFTSPEC, "proxy", "--schema"], schema)
        return f"releases new in the history: {', '.join(read) or 'none'}"

    def make_vectors(self) -> str:
        """Have the classes of the release make the vectors."""
        sets = () if self.adopted else ("kafka",)
        report = make(self.specs, self.vectors, sets, self.name, release=self.release)
        if report.refused:
            raise click.ClickException(f"Kafka refused {report.refused[0]}")
        return f"{report.tests:,} vectors of {report.pairs} pairs"

    def make_base_vectors(self) -> str:
        """Have the classes of the base make theirs; compare what both decide of the same bytes."""
        directory = self.work / "base"
        import_specs(release_specs(self.base), directory / "specs" / "kafka")
        result = make(directory / "specs", directory / "vectors", (), self.name, release=self.base)
        moved = _moved(directory / "vectors", self.vectors)
        self._write("verdicts.json", moved)
        count = sum(row["count"] for row in moved)
        return f"{result.tests:,} vectors, {count:,} whose verdict moved"

    def capture(self) -> str:
        """Record frames of clients and nodes of a cluster of this release."""
        if not self.adopted:
            return "those of the checkout are of the newest release"
        command = [*_KRAFTSPEC, "conform", "capture", "--out", str(self.vectors), "--json"]
        self._call(command, self.work / "captured.json")
        return f"{json.loads((self.work / 'captured.json').read_text('utf-8'))['pairs']} pairs"

    def run_adapters(self) -> str:
        """Run our codec and every adapter over the vectors, and ours over those of the base."""
        self.results.mkdir(exist_ok=True)
        ours = "kraftspec"
        serve = [*_KRAFTSPEC, "adapter", "--generated", str(self.codecs)]
        self._judge(ours, ["--exec", " ".join(serve)], self.vectors)
        base = ["--exec", " ".join(serve), "--release", self.release]
        self._judge(f"{ours}-base", base, self.work / "base" / "vectors")
        self._judge("kafka", ["--adapter", f"kafka@{self.release}"], self.vectors)
        if self.adopted:
            for spec in adapters():
                if not spec.missing() and not (self.results / f"{spec.name}.json").exists():
                    self._judge(spec.name, ["--adapter", spec.name], self.vectors)
                    recount(known_file(spec.name), read_results(self.results / f"{spec.name}.json"))
        return ", ".join(f"{name} {_verdict(result)}" for name, result in self._ran().items())

    def record_node_vectors(self) -> str:
        """Have controllers of this release and of older ones answer the requests."""
        if not self.adopted:
            return "the newest release records those of older ones, too"
        self._call([*_KRAFTSPEC, "conform", "record-node", "--json"], self.work / "node.json")
        counts = json.loads((self.work / "node.json").read_text("utf-8"))
        return f"{counts['vectors']} vectors, {counts['requests']:,} requests"

    def write_page(self) -> str:
        """Write what the release means for those who implement the protocol."""
        report = run_diff(self.base, str(self.specs / "kafka"))
        moved = json.loads((self.work / "verdicts.json").read_text("utf-8"))
        new = json.loads((self.work / "numbers.json").read_text("utf-8"))["new"]
        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,  # It is Markdown.
        )
        page = environment.get_template("release.md.jinja").render(
            release=self.release,
            base=self.base,
            counts=report.counts,
            messages=[_entry(message) for message in report.messages if message.changes],
            added=[message for message in report.messages if message.verdict == "new"],
            removed=[message for message in report.messages if message.verdict == "removed"],
            new=new,
            moved=moved,
            results=(ran := self._ran()),
            base_skips=ran["kraftspec-base"].skips,
        )
        out = self.work / "page.md"
        if self.adopted:
            out = self.checkout / "docs" / "releases" / f"{self.release}.md"
            out.parent.mkdir(exist_ok=True)
        out.write_text(page, "utf-8")
        return str(out.relative_to(self.checkout))

    # ---------------------------------------------------------------------------------- helpers

    def _ran(self) -> dict[str, Results]:
        return {path.stem: read_results(path) for path in sorted(self.results.glob("*.json"))}

    def _write(self, name: str, content: Any) -> None:
        (self.work / name).write_text(json.dumps(content, indent=2) + "\n", "utf-8")

    def _judge(self, name: str, of: list[str], vectors: Path) -> None:
        command = [*_KRAFTSPEC, "conform", "run", *of, "--vectors", str(vectors), "--json"]
        self._call(command, self.results / f"{name}.json", verdicts=True)

    def _call(self, command: list[str], out: Path | None, *, verdicts: bool = False) -> None:
        """Write the output of a command to a file, which is there only if the command worked."""
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False, cwd=self.checkout)
        if done.returncode not in ((0, 1, 2) if verdicts else (0,)):
            raise click.ClickException(f"{' '.join(command)} ended with {done.returncode}")
        if out is not None:
            out.write_bytes(done.stdout)


def recount(known: Path, results: Results) -> None:
    """Write how many cases each entry of a file of known failures matches now.

    A failure that no entry matches stays one: what it means is for a person to say.
    """
    if not known.exists():
        return
    head, *entries = known.read_text("utf-8").split("[[failure]]")
    for number, entry in enumerate(results.known):
        if entry.cases is not UNSET:
            entries[number] = re.sub(
                r"^cases = \d+$", f"cases = {entry.failed}", entries[number], flags=re.MULTILINE
            )
    known.write_text("[[failure]]".join([head, *entries]), "utf-8")


def _new_numbers(
    base: dict[str, list[dict[str, Any]]], now: dict[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    return {name: [row for row in rows if row not in base[name]] for name, rows in now.items()}


def _moved(base: Path, now: Path) -> list[dict[str, Any]]:
    """Count the vectors of both directories whose expected result differs, by what they test."""
    before = _results(base)
    after = _results(now)
    counts: dict[tuple[str, ...], list[str]] = {}
    for id, (family, result, message) in after.items():
        was = before.get(id)
        if was is not None and was[1] != result:
            counts.setdefault((family, was[1], result), []).append(message)
    return [
        {"family": family, "was": was, "now": result, "count": len(of), "messages": len({*of})}
        for (family, was, result), of in sorted(counts.items())
    ]


def _results(root: Path) -> dict[str, tuple[str, str, str]]:
    return {
        test.id: (test.family, test.result, file.message)
        for name, file in read_vectors(root)
        if name == "kafka"
        for test in file.tests
    }


def _verdict(results: Results) -> str:
    failed = results.counts.failed
    return f"{results.counts.passed:,} passed" + (f" {failed:,} failed" if failed else "")


def _entry(message: MessageDiff) -> dict[str, Any]:
    return {
        "name": message.name,
        "old": str(message.old_versions or ""),
        "new": str(message.new_versions or ""),
        "changes": [f"{one.path}: {one.what}".removeprefix(": ") for one in message.changes],
    }


@click.command()
@click.argument("release")
@click.option("--base", help="The release to compare with.  [default: the one before]")
@click.option("--again", is_flag=True, help="Take all steps again.")
def main(release: str, base: str | None, again: bool) -> None:
    """Bring RELEASE of Apache Kafka in, prove it, and write what it means for implementers."""
    older = [name for name in known_releases() if numbers(name) < numbers(release)]
    if base is None:
        if not older:
            raise click.UsageError(f"no release is older than {release}; give --base")
        base = older[-1]
    work = ReleaseWork(release, base, Path.cwd())
    if again:
        shutil.rmtree(work.work, ignore_errors=True)
    work.run()


if __name__ == "__main__":
    main()
