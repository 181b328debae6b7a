"""What several directories say together, and what is wrong with it.

Each verdict has a code, a sentence, and what to do.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from kraftspec.reference.raft.types import ReplicaKey
from kraftspec.reference.recovery.committed import Proof
from kraftspec.reference.recovery.compare import Comparison
from kraftspec.reference.recovery.elections import Candidate
from kraftspec.reference.recovery.reading import Directory


class Severity(StrEnum):
    """How bad a verdict is, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"
    NOTE = "note"


# What to do, by the code of a verdict.
ADVICE: Final = {
    "cluster-ids-differ": "Give directories of one cluster only.",
    "same-directory-twice": "Give each node's directory once. Never start two copies: each would "
    "vote and append as the same replica.",
    "two-directories-of-a-node": "Give the one that the node starts with. If its disk was "
    "replaced, remove the old voter (remove-controller) and add the new one (add-controller).",
    "damaged-log": "Do not start this node. Move its directory away, format it anew and let it "
    "fetch from the others; kraftspec dump-log shows what can be read.",
    "vote-unreadable": "Do not start this node: it could vote twice in an epoch. Restore the file, "
    "or remove the voter, format its directory anew and add it again.",
    "vote-missing": "As for an unreadable one, if the node was a voter: its vote is forgotten.",
    "epochs-used-up": "Nobody can be elected once the epoch is 2147483647. Find out who wrote such "
    "an epoch before anything is started.",
    "checkpoint-damaged": "Take the file away if an earlier checkpoint or the log has what it "
    "covers; else treat the directory as damaged.",
    "checkpoint-differs": "Do not start this node: its checkpoint and its log are of different "
    "histories. Format it anew and let it fetch.",
    "two-leaders": "Stop all nodes. Find out which branch clients were answered from; keep that "
    "one and format the other nodes anew.",
    "same-epoch-two-contents": "Stop all nodes and copy their directories. A log was edited, or "
    "controllers that were just formatted led by themselves. Keep one side, format the others "
    "anew.",
    "leader-by-other-voters": "Stop all nodes and copy their directories. What this leader "
    "committed may be unknown to the voters in force: compare the branches before going on.",
    "leader-without-majority": "As for leader-by-other-voters.",
    "two-committed-branches": "Stop all nodes and copy their directories. Clients were told of "
    "both. Choose one, format the others anew; what the other branch alone has is lost.",
    "committed-could-be-lost": "Do not start this node before the longer log is there, too.",
    "disjoint-majorities": "Start nobody. Two leaders could be elected that never meet: bring all "
    "nodes to the log with the newest voters first.",
    "nobody-electable": "Restarts do not help. If a directory is missing, bring it back; else a "
    "log has to be repaired while all nodes are stopped.",
    "observer-ahead": "Do not delete this log. The records that it alone has may have been "
    "acknowledged; with a shorter leader the node stops or loses topics.",
    "observer-epoch-ahead": "The node will not follow a leader of a lower epoch, also after a "
    "restart.",
    "directory-id-differs": "Its process is an observer. Remove the voter with the old directory "
    "id (remove-controller) and add the node (add-controller), while there is a majority.",
    "left-of-forced-recovery": "Do not start this node with this directory: format it anew.",
    "static-voters-differ": "Make controller.quorum.voters the same everywhere before starting.",
    "unreadable": "Name the log directory (metadata.log.dir), readable for this user.",
    "no-voters-known": "Give the directory of a controller that has voted or led.",
    "too-few-directories": "Give the directories of more voters. If they are lost for good, the "
    "quorum cannot elect a leader by itself.",
}  # fmt: skip


class Verdict(msgspec.Struct, kw_only=True, frozen=True):
    """Something to know. ``nodes`` are the ids of those concerned."""

    code: str
    severity: Severity
    text: str
    nodes: tuple[int, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """What is the same at two readings of the same thing."""
        return self.code, self.text

    @property
    def advice(self) -> str:
        """What to do; empty for most notes."""
        return ADVICE.get(self.code, "")


class Judgement(msgspec.Struct, kw_only=True):
    """What the directories say together.

    ``proofs`` are of what is committed, the furthest first. ``perhaps_end`` is where everything
    that was ever committed ends, None if nobody can say or the logs grow. ``is_still``: no
    directory changed while they were read.
    """

    directories: list[Directory]
    comparison: Comparison
    candidates: list[Candidate]
    missing: dict[int, ReplicaKey]
    proofs: list[Proof]
    perhaps_end: int | None
    is_still: bool
    verdicts: list[Verdict] = []

    @property
    def certain(self) -> Proof | None:
        """The furthest offset that is certainly committed, and why."""
        return self.proofs[0] if self.proofs else None

    @property
    def reference(self) -> int:
        """The number of the longest log that could lead, else of the longest log; -1: none."""
        electable = [one.number for one in self.candidates if one.is_electable]
        numbers = electable or [
            number for number, one in enumerate(self.directories) if not one.formatting_problem
        ]
        return max(numbers, key=lambda one: self.directories[one].log.position, default=-1)

    @property
    def exit_code(self) -> int:
        """0: all is well; 1: something is wrong; 3: the directories are too few to say."""
        severities = {verdict.severity for verdict in self.verdicts}
        if severities & {Severity.ERROR, Severity.WARNING}:
            return 1
        return 3 if Severity.UNKNOWN in severities else 0
