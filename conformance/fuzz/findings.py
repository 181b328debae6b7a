"""What a difference is called, so that it is the same one tomorrow, and the file it is kept in.

A signature says which message, which direction, what kind of disagreement, and about which field;
never the random bytes that showed it. Found again, by another seed or at another version, it is the
same finding: the file learns the version, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kraftspec.conformance.fuzz.ask import Question
from kraftspec.conformance.harness import Reply


@dataclass(frozen=True, slots=True, order=True)
class Signature:
    """The name of a finding.

    Attributes:
        direction: ``encode`` or ``decode``.
        kind: ``bytes``, ``value``, ``refused`` or ``ended``, as ``Difference`` has it.
        who: the adapter that refused or ended.
        path: the field in which the answers part, or that is wrong in the bytes.
        reason: why the bytes are refused by a strict decoder; empty for what is well formed.
        about: the fields that the least value sets.
    """

    spec: str
    message: str
    direction: str
    kind: str
    who: str
    path: str
    reason: str
    about: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Twelve hex digits that follow from all of it."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]

    def __str__(self) -> str:
        what = {
            "bytes": "other bytes", "value": "another value", "refused": f"{self.who} refuses",
            "ended": f"{self.who} ended",
        }[self.kind]  # fmt: skip
        where = ", ".join(self.about) or self.path or "(message)"
        why = f" [{self.reason}]" if self.reason else ""
        return f"{self.spec}/{self.message} {self.direction}: {what}{why}: {where}"


@dataclass(slots=True)
class Finding:
    """A difference, with the least question that shows it and what both said."""

    signature: Signature
    question: Question
    answers: dict[str, Reply]
    versions: set[int] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        asked = self.question.asked
        shown = {"hex": asked.hex()} if isinstance(asked, bytes) else {"value": asked}
        return {
            "id": self.signature.id,
            **asdict(self.signature),
            "about": list(self.signature.about),
            "versions": sorted(self.versions),
            "example": {"version": self.question.version, **shown, "answers": self.answers},
        }

    @property
    def file_name(self) -> str:
        """The name of its file in a directory of findings."""
        signature = self.signature
        return f"{signature.spec}-{signature.message}-{signature.direction}-{signature.id}.json"


def keep(directory: Path, findings: Iterable[Finding]) -> list[Finding]:
    """Put findings into their files; return those that had none yet.

    A file that is there keeps its example, so that it is not another one after each run.
    """
    directory.mkdir(parents=True, exist_ok=True)
    fresh = []
    for finding in findings:
        path = directory / finding.file_name
        report = finding.to_json()
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            kept["versions"] = sorted({*kept["versions"], *finding.versions})
            report = kept
        else:
            fresh.append(finding)
        text = json.dumps(report, indent=2, ensure_ascii=True) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return fresh


@dataclass(slots=True)
class Group:
    """Findings that most likely have one cause: the same thing of fields of the same name."""

    first: Finding
    findings: int = 0
    messages: set[tuple[str, str]] = field(default_factory=set)


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Put findings together by all of their signature but the message and the way to the field."""
    groups: dict[tuple[str, ...], Group] = {}
    for finding in sorted(findings, key=lambda finding: finding.signature):
        name = finding.signature
        # What is wrong with bytes can be so in any field; what is right is not read in some.
        paths = () if name.reason else name.about or (name.path,)
        fields = sorted({path.split(".")[-1] for path in paths})
        key = (name.direction, name.kind, name.who, name.reason, *fields)
        group = groups.setdefault(key, Group(finding))
        group.findings += 1
        group.messages.add((name.spec, name.message))
    return sorted(groups.values(), key=lambda group: -group.findings)


def read(path: Path) -> list[Finding]:
    """Read the findings of a file, or of a directory of them.

    Raises ``ValueError`` for what is no finding, ``OSError`` for what is not there.
    """
    paths = sorted(path.glob("*.json")) if path.is_dir() else [path]
    return [_finding(entry) for entry in paths]


def _finding(path: Path) -> Finding:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        example = kept["example"]
        signature = Signature(
            **{name: kept[name] for name in Signature.__slots__ if name != "about"},
            about=tuple(kept["about"]),
        )
        asked = bytes.fromhex(example["hex"]) if "hex" in example else example["value"]
        question = Question(signature.spec, signature.message, example["version"], asked)
        return Finding(signature, question, example["answers"], set(kept["versions"]))
    except (KeyError, TypeError, ValueError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is not a finding, as fuzz --out writes them: {why}") from error
