"""Signatures of differences, and the files of findings.

A signature names the message, the direction, the kind of difference and the field. It does not
contain the random bytes. If another seed or another version shows the same difference, it is the
same finding: its file gets the version, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kraftspec.conformance.adapters.harness import Reply
from kraftspec.conformance.fuzz.side import Question


@dataclass(frozen=True, slots=True, order=True)
class Signature:
    """The name of a finding.

    Attributes:
        direction: ``encode`` or ``decode``.
        kind: ``bytes``, ``value``, ``refused`` or ``ended``, as ``Difference`` has it.
        who: the adapter that refused or ended.
        path: the field in which the answers differ, or that is invalid in the bytes.
        reason: why a strict decoder rejects the bytes; empty if they are well formed.
        about: the fields that the minimised value sets.
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
        """Twelve hex digits, the hash of all fields."""
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
class Disagreement:
    """A difference, with the minimised question and both answers."""

    signature: Signature
    question: Question
    answers: dict[str, Reply]
    versions: set[int] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        payload = self.question.payload
        shown = {"hex": payload.hex()} if isinstance(payload, bytes) else {"value": payload}
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


def keep(directory: Path, findings: Iterable[Disagreement]) -> list[Disagreement]:
    """Write findings to their files; return those that had no file yet.

    An existing file keeps its example, so that a run does not change it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    fresh = []
    for finding in findings:
        path = directory / finding.file_name
        report = finding.to_json()
        if path.exists():
            entry = json.loads(path.read_text(encoding="utf-8"))
            entry["versions"] = sorted({*entry["versions"], *finding.versions})
            report = entry
        else:
            fresh.append(finding)
        text = json.dumps(report, indent=2, ensure_ascii=True) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return fresh


@dataclass(slots=True)
class Group:
    """Findings that probably have one cause: the same difference in fields of the same name."""

    first: Disagreement
    findings: int = 0
    messages: set[tuple[str, str]] = field(default_factory=set)


def grouped(findings: Iterable[Disagreement]) -> list[Group]:
    """Group findings by their signature, without the message and the path to the field."""
    groups: dict[tuple[str, ...], Group] = {}
    for finding in sorted(findings, key=lambda finding: finding.signature):
        name = finding.signature
        # Invalid bytes can be in any field; a valid value is misread in particular fields.
        paths = () if name.reason else name.about or (name.path,)
        fields = sorted({path.split(".")[-1] for path in paths})
        key = (name.direction, name.kind, name.who, name.reason, *fields)
        group = groups.setdefault(key, Group(finding))
        group.findings += 1
        group.messages.add((name.spec, name.message))
    return sorted(groups.values(), key=lambda group: -group.findings)


def read(path: Path) -> list[Disagreement]:
    """Read the findings of a file, or of a directory of them.

    Raises ``ValueError`` if a file is not a finding, ``OSError`` if there is no such file.
    """
    paths = sorted(path.glob("*.json")) if path.is_dir() else [path]
    return [_finding(entry) for entry in paths]


def _finding(path: Path) -> Disagreement:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        example = entry["example"]
        signature = Signature(
            **{name: entry[name] for name in Signature.__slots__ if name != "about"},
            about=tuple(entry["about"]),
        )
        payload = bytes.fromhex(example["hex"]) if "hex" in example else example["value"]
        question = Question(signature.spec, signature.message, example["version"], payload)
        return Disagreement(signature, question, example["answers"], set(entry["versions"]))
    except (KeyError, TypeError, ValueError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is not a finding, as fuzz --out writes them: {why}") from error
