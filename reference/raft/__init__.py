"""The KRaft quorum protocol as a pure machine: events go in, effects come out.

`Core` decides; it never does. It has no clock, no socket, no disk and no randomness but what it is
given, so that one and the same code runs in a real quorum and in a simulator where a single seed
owns everything. Whatever surrounds it is its *host*, a `reference.host.Host`. The host:

1. Recovers the log, and makes a `LogState` of it: offsets, epochs, snapshots, and the voter sets
   and kraft.versions that the control records say. Reads quorum-state into an `ElectionState`.

2. Makes ``Core(config, policy, log, election, random)``. ``random`` needs ``getrandbits`` only. The
   policy comes from a profile (`profile.Profile`), which also turns messages into bytes and back.

3. Calls ``step(Start(), now_us)`` once, and from then on ``step(event, now_us)`` with whatever
   happens, one event at a time:

   * ``RequestReceived`` and ``ReplyReceived`` for decoded messages, ``RequestFailed`` for those
     that will not be answered,
   * ``Tick`` when ``next_deadline_us()`` has come. Ask again after each step: deadlines move,
   * ``LogFlushed``, ``SnapshotStored`` when the disk is done with what may take its time,
   * ``AppendRequested`` and other wishes of the state machine or of an operator.

4. Carries out the effects that ``step`` returns, *in their order*, before the next step's. See
   `effects` for what each means and which may be late. That order is the whole of durability:
   quorum-state is on disk before the vote that it records is sent, and a follower's records are on
   disk before it fetches on, because fetching on is how it acknowledges them.

``now_us`` are microseconds and never go back; a host whose clock jumps must smooth it. Timestamps
that leave the node (batches, DescribeQuorum) are ``now_us // 1000``, so a host that wants real
ones counts from the Unix epoch.

A `FatalError` out of ``step`` is a thing that no correct quorum does, such as a leader that asks to
truncate what is committed. The node must stop and write nothing more.

How it works inside, from the bottom up: `state.State` is what a replica knows whatever its role is.
`role` adds the role, the changes of role by the table of `transitions`, and the decisions that a
protocol makes. Each role is a module: `unattached`, `prospective`, `candidate`, `leader` (with
`membership`), `follower`, `resigned`. A role that ends names a `Cause`, and the table says which
role follows. Messages are handled first by the rules that all roles share (`rules`, `requests`,
`replies`), then by the role. `core.Core` puts it together: it looks the handler of an event up by
its type, then polls the role, which does what its timers say and sends what there is to send.

Used by `reference.storage`, by the node, and by the simulator. It may import `generated.errors` and
`fastpath.types`, and nothing that waits, draws, reads a clock or touches a disk.
"""

from __future__ import annotations

from kraftspec.reference.raft.config import Config as Config
from kraftspec.reference.raft.core import Core as Core
from kraftspec.reference.raft.log_state import LogState as LogState
from kraftspec.reference.raft.policy import Policy as Policy
from kraftspec.reference.raft.transitions import TRANSITIONS as TRANSITIONS
from kraftspec.reference.raft.transitions import Cause as Cause
from kraftspec.reference.raft.transitions import FatalError as FatalError
from kraftspec.reference.raft.types import ElectionState as ElectionState
from kraftspec.reference.raft.types import ReplicaKey as ReplicaKey
from kraftspec.reference.raft.types import RoleName as RoleName
from kraftspec.reference.raft.types import SnapshotId as SnapshotId
from kraftspec.reference.raft.types import Voter as Voter
from kraftspec.reference.raft.voters import VoterSet as VoterSet
