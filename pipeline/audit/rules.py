"""What an audit can find: a name, how bad it is, and what it means, in one table.

A *finding* is an ``error``, which nothing that Kafka does explains, or a ``note``: worth a look,
and found in good logs too. Only errors make an audit fail. What Kafka's own work explains (the
cleaner's, above all) is no finding: it is counted under the name of its reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    NOTE = "note"


class Rule(NamedTuple):
    """One kind of finding: how bad it is, and what it means in a sentence."""

    severity: Severity
    meaning: str


_ERROR, _NOTE = Severity.ERROR, Severity.NOTE

RULES: Final[dict[str, Rule]] = {
    "damage": Rule(_ERROR, "bytes that are no good batch; a reader stops there"),
    "torn_tail": Rule(_ERROR, "a last batch that was cut short: a write without its end"),
    "zero_tail": Rule(_ERROR, "zeros after the last batch of a segment that is not the last"),
    "zero_tail_of_last_segment": Rule(_NOTE, "zeros after the last batch: filled ahead"),
    "no_round_trip": Rule(_ERROR, "decoded and encoded again, a batch gives other bytes"),
    "value_no_round_trip": Rule(
        _ERROR, "decoded and encoded again, a typed value gives other bytes"
    ),
    "value_undecodable": Rule(_ERROR, "a metadata or control record that no codec can read"),
    "max_timestamp_wrong": Rule(_ERROR, "a batch's max timestamp is not that of its records"),
    "base_timestamp_odd": Rule(_ERROR, "a batch's base timestamp is not its first record's"),
    "timestamp_negative": Rule(_ERROR, "a timestamp below -1, which no producer can send"),
    "record_attributes": Rule(_ERROR, "a record has attribute bits, and Kafka defines none"),
    "batch_attributes": Rule(_ERROR, "a batch has attribute bits that Kafka does not define"),
    "producer_fields": Rule(_ERROR, "producer id, epoch and sequence that do not go together"),
    "offset_gap": Rule(_ERROR, "offsets are missing between two batches, and no cleaner ran"),
    "offset_hole": Rule(_ERROR, "offsets are missing inside a batch, and no cleaner ran"),
    "offset_hole_with_null_key": Rule(
        _ERROR, "offsets are missing inside a batch, and a record has no key: no cleaner's work"
    ),
    "empty_batch": Rule(_ERROR, "a batch without records, and no cleaner ran"),
    "delete_horizon": Rule(_ERROR, "a batch has a delete horizon, and no cleaner ran"),
    "offset_duplicate": Rule(_ERROR, "a batch has the offsets of the one before"),
    "offset_out_of_order": Rule(_ERROR, "a batch starts at an offset that was passed already"),
    "file_name_differs": Rule(_ERROR, "a file's first offset is after the one of its name"),
    "below_file_name": Rule(_ERROR, "a file's first offset is before the one of its name"),
    "epoch_regression": Rule(_ERROR, "the partition leader epoch falls"),
    "epoch_checkpoint_differs": Rule(_ERROR, "leader-epoch-checkpoint has another epoch"),
    "producer_epoch_regression": Rule(_ERROR, "a producer writes with an epoch that was fenced"),
    "sequence_gap": Rule(_ERROR, "sequence numbers of an idempotent producer are missing"),
    "sequence_duplicate": Rule(_ERROR, "sequence numbers of an idempotent producer come again"),
    "transaction_hanging": Rule(_ERROR, "a transaction has no end, and the log went on"),
    "transaction_open": Rule(_NOTE, "a transaction is not over where the log ends"),
    "marker_without_transaction": Rule(_NOTE, "an end marker, and no record of its transaction"),
    "index_size": Rule(_ERROR, "an index is not made of whole entries"),
    "index_entry": Rule(_ERROR, "an .index entry leads to a wrong place of the segment"),
    "time_index_entry": Rule(_ERROR, "a .timeindex entry disagrees with the batches"),
    "transaction_index_entry": Rule(_ERROR, "a .txnindex entry has no such abort marker"),
    "abort_not_indexed": Rule(
        _ERROR, "an aborted transaction is not in the .txnindex: readers take it as committed"
    ),
    "checkpoint_unreadable": Rule(_ERROR, "a checkpoint file is not in Kafka's format"),
}

# What the log cleaner leaves behind: each is a finding where it did not run.
EXPLAINED: Final[dict[str, str]] = {
    "offset_gap": "the cleaner removed whole batches of superseded records",
    "offset_hole": "the cleaner removed superseded records from a batch",
    "empty_batch": "the cleaner keeps a producer's last batch, for its sequence number",
    "delete_horizon": "the cleaner wrote down when tombstones and markers may go",
    "file_name_differs": "the cleaner removed the first batches of a segment",
    "base_timestamp_odd": "the cleaner removed the first record of a batch",
    "sequence_gap": "the cleaner removed whole batches of a producer",
    "marker_without_transaction": "the cleaner removed a transaction's records before its marker",
}
