"""What must hold after every event, a property a file.

An invariant overrides the hooks it needs; `Hooks` calls only those, so that one which looks at
leaders costs nothing while records are appended. A breach raises `Violation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from kraftspec.conformance.simulation.invariants.base import Hooks, Invariant, Violation

# In this order they are asked.
NAMES: Final = (
    "legal_transitions",
    "monotonic_epoch",
    "single_leader",
    "one_vote",
    "pre_vote_changes_nothing",
    "leader_is_spared",
    "epochs_are_followed",
    "log_matching",
    "leader_append_only",
    "durable_survives",
    "synced_before_fetch",
    "no_truncation_of_committed",
    "majority_holds_high_watermark",
    "monotonic_high_watermark",
    "committed_bytes",
    "leader_completeness",
    "leader_hears_majority",
    "one_voter_change",
    "snapshot_at_log_start",
    "voters_follow_log",
    "joiner_is_caught_up",
    "snapshot_is_prefix",
    "leader_loads_no_snapshot",
    "log_is_whole",
    "acknowledged_stays",
    "linearizable_appends",
)
# Looked at where they happen: the core says that it cannot go on; a node cannot open its own disk;
# a snapshot is not what was sent; a log is opened whose bytes changed; anything else is raised.
OTHERS: Final = (
    "no_fatal_error", "opens_its_disk", "fetched_whole", "rot_is_noticed", "no_exception",
)  # fmt: skip


def all_invariants(names: Sequence[str] = NAMES) -> list[Invariant]:
    """Make one of each, for one run."""
    return [import_module(f"{__name__}.{name}").INVARIANT() for name in names]


__all__ = ["NAMES", "OTHERS", "Hooks", "Invariant", "Violation", "all_invariants"]
