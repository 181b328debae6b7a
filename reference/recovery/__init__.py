"""What the directories of a quorum's nodes say together, when nobody can be asked any more.

``read_directory`` reads one directory (`reading.Directory`): identity, log, checkpoints, vote,
voters. ``judge`` compares several (`judgement.Judgement`): where logs part, who could be elected,
what is committed, what is wrong. ``verify`` does both, beside live nodes too. These write
and lock nothing, and stand on two operations of a file system, so that the disks of simulated nodes
are read as they are.

``plan`` chooses a cure for a quorum that lost its majority, and says why it refuses; ``cure`` locks
and writes, through the log of a node; ``instructions`` has the words.

Called by the ``quorum`` command and by the simulator. It may import the tools, which have the words
for records, and what is below them.
"""

from __future__ import annotations

from kraftspec.reference.recovery.judgement import ADVICE, Judgement, Severity, Verdict
from kraftspec.reference.recovery.reading import Directory
from kraftspec.reference.recovery.verifier import judge, verify
from kraftspec.reference.recovery.walker import read_directory

__all__ = [
    "ADVICE",
    "Directory",
    "Judgement",
    "Severity",
    "Verdict",
    "judge",
    "read_directory",
    "verify",
]
