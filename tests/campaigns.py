"""The long checks that fit into no tier of tests, one after another: ``make campaigns``.

python tests/campaigns.py                       # goes on with what is not done
python tests/campaigns.py lock-step --slices 5  # five more slices of one campaign
python tests/campaigns.py --list                # what there is, and how far each is
python tests/campaigns.py lock-step --again     # forgets what is done, and begins anew

A campaign is a command, or one command for each slice of its seeds. What a slice printed is kept in
`build/campaigns/NAME/`, and a slice that has ended is not run again; one that was stopped is. The
exit code is 0 if all that is done went well, 1 if a slice did not, 130 if it was interrupted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from kraftspec.conformance.adapters.registry import adapters

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "campaigns"
_KRAFTSPEC = (sys.executable, "-m", "kraftspec")


@dataclass(frozen=True)
class Campaign:
    """A command; ``{seeds}`` in it stands for the seeds ``A..B`` of a slice."""

    name: str
    about: str
    command: tuple[str, ...]
    seeds: int = 1
    slice: int = 1

    def slices(self) -> list[str]:
        """Return the seeds of each slice."""
        starts = range(0, self.seeds, self.slice)
        return [f"{at}..{min(at + self.slice, self.seeds) - 1}" for at in starts]

    def filled(self, seeds: str) -> list[str]:
        """Return the command of a slice."""
        return [word.replace("{seeds}", seeds) for word in self.command]


def make(target: str, *arguments: str) -> tuple[str, ...]:
    """Return the command of a make target."""
    return ("make", "--no-print-directory", target, *arguments)


def simulated(name: str, about: str, core: str, millions: int) -> Campaign:
    """Return a campaign of simulations over Spark, which divides and resumes it itself."""
    name = f"simulate-{name}"
    seeds = millions * 100  # A run has 10,000 events.
    out = f"build/campaigns/{name}/units"
    command = ("pipeline", "campaign", "simulate", "--core", core, "--seeds", str(seeds))
    about = f"{millions:,} million events: {about}"
    return Campaign(name, about, (*_KRAFTSPEC, *command, "--out", out))


def modelled(name: str, about: str, *options: str) -> Campaign:
    """Return a campaign of runs that the TLA+ model is to explain."""
    command = ("simulate", "--model-check", "--seeds", "{seeds}", "--events", "1000", *options)
    about = f"the model explains runs of {about}"
    return Campaign(f"model-{name}", about, (*_KRAFTSPEC, *command), seeds=1_000, slice=25)


CAMPAIGNS = (
    Campaign("catalogue", "every seeded bug is found", make("simulate-catalogue")),
    Campaign("model", "all states of the TLA+ model, and its faults", make("model")),
    Campaign("explore", "all states of a few real nodes are the model's", make("explore")),
    Campaign(
        "model-bugs",
        "the model alone rejects runs with seeded bugs",
        make("model-bugs", "ARGS=--out build/campaigns/model-bugs/runs.jsonl"),
    ),
    modelled("ours", "our nodes"),
    modelled("kip-595", "the draft KIP-595", "--profile", "kip-595"),
    modelled("kip-996", "the draft KIP-996", "--profile", "kip-996"),
    modelled("kip-853", "KIP-853's first version", "--profile", "kip-853"),
    modelled("kafka-4.3.1", "Kafka 4.3.1", "--core", "kafka:4.3.1"),
    modelled("kafka-4.4.0", "Kafka 4.4.0", "--core", "kafka:4.4.0"),
    Campaign("recall", "public bugs of Kafka's releases are found again", make("recall")),
    Campaign("live-catalogue", "the live suite catches seeded bugs", make("live-catalogue")),
    Campaign("live", "our node does all of the live suite", make("live")),
    Campaign("live-kafka", "Kafka's controller, too", make("live-kafka")),
    Campaign(
        "clients", "clients fail what they are known to fail alone", make("clients", "ARGS=--again")
    ),
    Campaign(
        "clients-broken",
        "each exchange fails a client with its fault",
        (
            *("env", "KRAFTSPEC_EXCHANGES=all", sys.executable, "-m", "pytest", "-q"),
            "tests/conformance/clients/test_exchanges.py",
        ),
    ),
    Campaign(
        "proxy-4.3.1",
        "the proxy's rules between nodes of the release before",
        (
            *("env", "KRAFTSPEC_BROKERS=4.3.1", sys.executable, "-m", "pytest", "-q", "-n", "0"),
            *(f"tests/proxy/test_real{part}.py" for part in ("", "_rules", "_quorum", "_clients")),
        ),
    ),
    Campaign(
        "dissector",
        "Wireshark shows every vector as our decoder reads it",
        (
            *("env", "KRAFTSPEC_DISSECTED=all", sys.executable, "-m", "pytest", "-q", "-n", "0"),
            "tests/codegen/wireshark/test_messages.py",
        ),
    ),
    *(
        Campaign(
            f"codec-{spec.name}",
            f"all vectors: {spec.implements} {spec.version} fails what is known",
            (*_KRAFTSPEC, "conform", "run", "--adapter", spec.name),
        )
        for spec in adapters()
        if spec.homepage
    ),
    Campaign(
        "aarch64",
        "the compiled modules for ARMv8 pass golden vectors under an emulator",
        ("tests/aarch64.sh",),
    ),
    Campaign(
        "commands",
        "commands of the pages that take minutes do what is said of them",
        (sys.executable, "tests/cli/long_commands.py"),
    ),
    Campaign("recover-matrix", "wrecked quorums of Kafka are recovered", make("recover-matrix")),
    Campaign("verify-live", "quorum verify gives no false alarm", make("verify-live")),
    Campaign("fuzz", "two million changed inputs for each decoder", make("fuzz")),
    Campaign(
        "verify",
        "quorum verify says what is so of simulated disks",
        (sys.executable, "-m", "kraftspec.simulation.offline", "{seeds}"),
        seeds=10_000,
        slice=250,
    ),
    Campaign(
        "recover",
        "simulated quorums that were lost are recovered, and go on",
        (sys.executable, "-m", "kraftspec.simulation.recovered", "{seeds}"),
        seeds=10_000,
        slice=250,
    ),
    Campaign(
        "lock-step",
        "our core and Kafka's take the same steps",
        (*_KRAFTSPEC, "simulate", "--lock-step", "kafka:4.3.1", "--seeds", "{seeds}", "--json"),
        seeds=4_800,
        slice=25,
    ),
    simulated("ours", "our nodes", "kraftspec", 1_000),
    simulated("kafka", "Kafka's nodes of two releases", "kafka:4.3.1,kafka:4.4.0", 50),
    simulated("mixed", "Kafka's nodes and ours", "kafka:4.4.0,kraftspec", 50),
)


class Progress:
    """What is done of a campaign: ``done.json`` has the exit code and seconds of each slice."""

    def __init__(self, campaign: Campaign, build: Path) -> None:
        self.campaign = campaign
        self.directory = build / campaign.name
        self._file = self.directory / "done.json"
        self.done: dict[str, dict[str, Any]] = {}
        if self._file.exists():
            self.done = json.loads(self._file.read_text("utf-8"))

    @property
    def failed(self) -> list[str]:
        """The slices that ended with another exit code than 0."""
        return [seeds for seeds, one in self.done.items() if one["exit"]]

    @property
    def seconds(self) -> float:
        """What all slices took."""
        return float(sum(one["seconds"] for one in self.done.values()))

    def left(self) -> list[str]:
        """Return the slices that have not ended."""
        return [seeds for seeds in self.campaign.slices() if seeds not in self.done]

    def run(self, seeds: str) -> int:
        """Run a slice, keep what it prints, and then that it is done."""
        self.directory.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with (self.directory / f"{seeds}.txt").open("wb") as out:
            ended = subprocess.run(
                self.campaign.filled(seeds),
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                check=False,
            )
        self.done[seeds] = {
            "exit": ended.returncode,
            "seconds": round(time.monotonic() - started, 1),
            "commit": _commit(),
        }
        written = self._file.with_suffix(".tmp")
        written.write_text(json.dumps(self.done, indent=1) + "\n", "utf-8")
        written.replace(self._file)
        return ended.returncode

    def forget(self) -> None:
        """Begin anew."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.done = {}


def _commit() -> str:
    command = ("git", "describe", "--always", "--dirty")
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT
    ).stdout.strip()


def show(all_progress: list[Progress]) -> None:
    """Print how far each campaign is."""
    table = Table("campaign", "slices done", "failed", "minutes", "what it shows")
    for one in all_progress:
        slices = len(one.campaign.slices())
        table.add_row(
            one.campaign.name,
            f"{slices - len(one.left())} of {slices}",
            ", ".join(one.failed[:3]) + (" …" if len(one.failed) > 3 else ""),
            f"{one.seconds / 60:.0f}",
            one.campaign.about,
        )
    Console().print(table)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--slices", type=click.IntRange(min=1), help="No more of each than this.")
@click.option("--again", is_flag=True, help="Forget what is done.")
@click.option("--list", "listed", is_flag=True, help="Say how far each is, and end.")
@click.option("--build", type=click.Path(path_type=Path), default=BUILD, hidden=True)
def main(
    names: tuple[str, ...], slices: int | None, again: bool, listed: bool, build: Path
) -> None:
    """Run the campaigns NAMES, all of them where none is named."""
    known = {one.name: one for one in CAMPAIGNS}
    for name in names:
        if name not in known:
            raise click.UsageError(f"no campaign is called {name}: there are {', '.join(known)}")
    chosen = [Progress(known[name], build) for name in names or known]
    if again:
        for one in chosen:
            one.forget()
    for one in [] if listed else chosen:
        for seeds in one.left()[:slices]:
            click.echo(f"{one.campaign.name} {seeds} …")
            code = one.run(seeds)
            if code:
                click.echo(f"{one.campaign.name} {seeds}: exit code {code}, see {one.directory}")
    show(chosen)
    raise SystemExit(1 if any(one.failed for one in chosen) else 0)


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
