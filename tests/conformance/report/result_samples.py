"""Results of runs that nobody ran: of any size, and with texts that break careless pages."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from kraftspec.conformance.raw.results import (
    Counts,
    Failure,
    HarnessFailure,
    ResultAdapter,
    Results,
    Selection,
    Skip,
    UnexpectedPass,
)
from kraftspec.generated.kafka import CATALOGUE

# Ends a script, opens a comment, closes an attribute, and is no XML at all.
NASTY = "</script><script>alert(1)</script><!-- ]]> &lt; \"'`${x}\\ \u2028 \x00\x1b\ud83d\ude00"
NASTY = NASTY.encode("utf-16", "surrogatepass").decode("utf-16")


def counts(
    passed: int = 0, failed: int = 0, skipped: int = 0, known: int = 0, unexpected: int = 0
) -> Counts:
    return Counts(
        passed=passed,
        failed=failed,
        skipped=skipped,
        known_failures=known,
        unexpected_passes=unexpected,
    )


def write_known(path: Path, *entries: dict[str, Any]) -> Path:
    """Write a file of known failures; what an entry leaves out is made up."""
    lines = []
    for entry in entries:
        whole = {"reason": "because", "issue": "https://x/1", "expires": "2999-01-01", **entry}
        lines += ["[[failure]]", *(f"{name} = {json.dumps(it)}" for name, it in whole.items())]
    path.write_text("\n".join(lines or ["failure = []"]))
    return path


def failure(message: str = "VoteRequest", version: int = 0, **fields: Any) -> Failure:
    defaults = {
        "spec": "kafka",
        "id": "e679879fa8156c12",
        "direction": "decode",
        "family": "defaults",
        "flags": [],
        "kind": "wrong",
        "detail": 'clusterId: null wanted, "" given',
        "reproduce": "kraftspec conform run --adapter mine --filter e679879fa8156c12",
        **fields,
    }
    return Failure(message=message, version=version, **defaults)


def results(
    messages: dict[str, dict[str, Counts]],
    failures: list[Failure] | None = None,
    *,
    name: str = "mine",
    version: str = "1.0",
    language: str = "go",
    unexpected: list[UnexpectedPass] | None = None,
    selection: Selection | None = None,
    harness_failure: HarnessFailure | UnsetType = UNSET,
) -> Results:
    """Make results whose total is the sum of their cells."""
    total = counts()
    for one in (one for versions in messages.values() for one in versions.values()):
        for field in Counts.__struct_fields__:
            setattr(total, field, getattr(total, field) + getattr(one, field))
    return Results(
        schema_version=1,
        adapter=ResultAdapter(name=name, language=language, version=version),
        selection=selection or Selection(),
        seconds=1.5,
        pairs=sum(map(len, messages.values())),
        tests=total.passed + total.failed,
        counts=total,
        messages=messages,
        failures=failures or [],
        unexpected_passes=unexpected or [],
        known=[],
        skips=[Skip(reason="not written yet", count=total.skipped)] if total.skipped else [],
        restarts=0,
        harness_failure=harness_failure,
    )


def campaign(run_count: int, failure_share: float, *, seed: int = 1) -> list[Results]:
    """Make runs over all messages of Kafka and a draft, ``failure_share`` of the pairs failing.

    A failing pair has 40 failures.
    """
    return [
        _run(number, failure_share, random.Random(seed + number)) for number in range(run_count)
    ]


def _run(number: int, failure_share: float, chance: random.Random) -> Results:
    messages: dict[str, dict[str, Counts]] = {}
    failures: list[Failure] = []
    names = {name: range(first, stop) for name, (_, _, _, first, stop, _) in CATALOGUE.items()}
    names["kip-853/VoteRequest"] = range(3)
    for key, versions in names.items():
        absent = chance.random() < 0.1 * number
        for version in versions:
            if absent:
                cell = counts(skipped=120)
            elif chance.random() < failure_share:
                cell = counts(passed=80, failed=40)
                failures += _failures(key, version, chance)
            elif chance.random() < 0.02 * number:
                cell = counts(passed=100, skipped=20)
            else:
                cell = counts(passed=120)
            messages.setdefault(key, {})[str(version)] = cell
    languages = ("python", "python", "java", "go", "rust", "rust", "python", "javascript")
    name = ("ours", "ours-pure", "kafka", "franz", "kprotocol", "tansu", "kio", "node")[number]
    return results(messages, failures, name=name, language=languages[number], version=f"1.{number}")


def _failures(key: str, version: int, chance: random.Random) -> list[Failure]:
    spec, _, message = key.rpartition("/")
    failures = []
    for _ in range(40):
        direction: Literal["encode", "decode"] = chance.choice(["encode", "decode"])
        expected = chance.randbytes(chance.choice([8, 40, 300]))
        at = chance.randrange(len(expected))
        actual = expected[:at] + bytes([expected[at] ^ 0xFF]) + expected[at + 1 :]
        sides = (expected.hex(), actual.hex()) if direction == "encode" else ('{"a":1}', '{"a":2}')
        failures.append(
            failure(
                message,
                version,
                spec=spec or "kafka",
                id=chance.randbytes(8).hex(),
                direction=direction,
                path=f"topics[{at}].partitions[0].leaderEpoch",
                offset=at,
                detail=f"bytes differ from byte {at} on",
                wanted=sides[0],
                given=sides[1],
            )
        )
    return failures
