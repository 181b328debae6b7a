"""The counts and findings of an audit: small, mergeable, and encoded as JSON unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kraftspec.pipeline.audit.rules import RULES, Severity

# Of one kind, in one partition, findings that are kept one by one; all are counted.
FINDINGS_KEPT_MAX: Final = 100
_INT64_MAX: Final = (1 << 63) - 1


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is not as it should be, and where: ``position`` is a byte of ``file``.

    ``offset`` is a record's, -1 where none is meant; ``size`` counts the bytes of damage and
    ``error_class`` is that of the codec's error.
    """

    kind: str
    topic: str
    partition: int
    file: str
    position: int
    offset: int = -1
    size: int = 0
    error_class: str = ""
    detail: str

    @property
    def severity(self) -> Severity:
        """How bad it is, by the table of rules."""
        return RULES[self.kind].severity


class Share(msgspec.Struct):
    """A number of batches, with their records and bytes."""

    batches: int = 0
    records: int = 0
    bytes: int = 0

    def add(self, other: Share) -> None:
        """Add another share."""
        self.batches += other.batches
        self.records += other.records
        self.bytes += other.bytes


class Sizes(msgspec.Struct):
    """How long keys or values are: buckets of powers of two, a total and the longest.

    Bucket n holds lengths of n bits: 0 only the empty, 1 length 1, 2 lengths 2 and 3, 3 lengths
    4 to 7. ``nulls`` have no length.
    """

    buckets: dict[int, int] = {}
    bytes: int = 0
    longest: int = 0
    nulls: int = 0

    def add(self, length: int, count: int) -> None:
        """Count ``count`` values of a length."""
        bucket = length.bit_length()
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.bytes += length * count
        self.longest = max(self.longest, length)

    def merge(self, other: Sizes) -> None:
        """Add another distribution."""
        self.buckets = dict(Counter(self.buckets) + Counter(other.buckets))
        self.bytes += other.bytes
        self.longest = max(self.longest, other.longest)
        self.nulls += other.nulls


class Counts(msgspec.Struct):
    """What is in a log. Records of control batches are in ``records`` and in ``control`` alone."""

    files: int = 0
    bytes: int = 0
    damaged_bytes: int = 0
    batches: int = 0
    records: int = 0
    data_records: int = 0
    codecs: dict[str, Share] = {}
    control: dict[str, int] = {}
    record_types: dict[str, int] = {}
    keys: Sizes = msgspec.field(default_factory=Sizes)
    values: Sizes = msgspec.field(default_factory=Sizes)
    batch_sizes: dict[int, int] = {}
    headers: int = 0
    records_with_headers: int = 0
    tombstones: int = 0
    append_time_batches: int = 0
    idempotent_batches: int = 0
    transactional_batches: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    offset_first: int = -1
    offset_last: int = -1
    timestamp_min: int = _INT64_MAX
    timestamp_max: int = -1
    # Decoded and encoded again, the same: whole batches; compressed ones, once inflated; those
    # that no producer sends, record by record; typed values.
    same_batches: int = 0
    same_inflated: int = 0
    same_by_record: int = 0
    differing_batches: int = 0
    same_values: int = 0

    def merge(self, other: Counts) -> None:
        """Add the counts of the next part of the log, or of another log."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, share in other.codecs.items():
            self.codecs.setdefault(name, Share()).add(share)
        self.control = dict(Counter(self.control) + Counter(other.control))
        self.record_types = dict(Counter(self.record_types) + Counter(other.record_types))
        self.batch_sizes = dict(Counter(self.batch_sizes) + Counter(other.batch_sizes))
        self.keys.merge(other.keys)
        self.values.merge(other.values)
        first = [one for one in (self.offset_first, other.offset_first) if one >= 0]
        self.offset_first = min(first, default=-1)
        self.offset_last = max(self.offset_last, other.offset_last)
        self.timestamp_min = min(self.timestamp_min, other.timestamp_min)
        self.timestamp_max = max(self.timestamp_max, other.timestamp_max)


_SUMS = [
    field.name
    for field in msgspec.structs.fields(Counts)
    if field.type is int and field.name.partition("_")[0] not in ("offset", "timestamp")
]


class Findings(msgspec.Struct):
    """Findings: all are counted by kind, the first of each kind are kept."""

    counts: dict[str, int] = {}
    kept: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it if it is among the first of its kind."""
        count = self.counts.get(finding.kind, 0)
        self.counts[finding.kind] = count + 1
        if count < FINDINGS_KEPT_MAX:
            self.kept.append(finding)

    def merge(self, other: Findings) -> None:
        """Add the findings of the next part of the partition."""
        capacity = {kind: FINDINGS_KEPT_MAX - count for kind, count in self.counts.items()}
        for finding in other.kept:
            left = capacity.setdefault(finding.kind, FINDINGS_KEPT_MAX)
            if left > 0:
                self.kept.append(finding)
                capacity[finding.kind] = left - 1
        self.counts = dict(Counter(self.counts) + Counter(other.counts))

    def extend(self, other: Findings) -> None:
        """Add the findings of another partition, all that it kept."""
        self.kept += other.kept
        self.counts = dict(Counter(self.counts) + Counter(other.counts))

    def count(self, severity: Severity) -> int:
        """Return how many findings are as bad as this."""
        return sum(n for kind, n in self.counts.items() if RULES[kind].severity is severity)


class Report(msgspec.Struct, kw_only=True):
    """An audit's whole result; ``to_json`` is what ``--json`` prints.

    ``explained`` is how often the log cleaner explains what else were a finding, ``unread`` path →
    why it could not be read, ``ignored`` path → why it is no part of a log.
    """

    kraftspec: str
    paths: list[str]
    totals: Counts
    topics: dict[str, Counts]
    partitions: list[PartitionReport]
    findings: Findings
    explained: dict[str, int]
    unread: dict[str, str]
    ignored: dict[str, str]

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return self.findings.count(Severity.ERROR)

    @property
    def notes(self) -> int:
        """How many findings are notes."""
        return self.findings.count(Severity.NOTE)

    def to_json(self) -> Any:
        """Return the report as plain lists and dictionaries."""
        return msgspec.to_builtins(self, str_keys=True)


class PartitionReport(msgspec.Struct, kw_only=True):
    """One partition, or one snapshot of the metadata log, of the report.

    ``clean_until`` is the offset up to which, by cleaner-offset-checkpoint, the cleaner ran,
    None without such a file. ``missing_offsets`` counts those from the first to the last that no
    record has; ``files`` are paths and sizes in bytes.
    """

    topic: str
    partition: int
    directory: str
    counts: Counts
    clean_until: int | None
    missing_offsets: int
    errors: int
    notes: int
    files: list[tuple[str, int]]


def merged(parts: Iterable[Counts]) -> Counts:
    """Return the sum of counts."""
    total = Counts()
    for part in parts:
        total.merge(part)
    return total
