"""How the first node of a quorum begins ("kafka-storage": an AddVoter record in the log).

Its uuid has to be known before it starts, since the record names it; so formatting writes
quorum-state too, where a replica keeps its uuid. Every other node begins with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kip_853 import QuorumStateData
from kraftspec.reference.log.control import encode_control_values
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.quorum_state import NAME, render
from kraftspec.reference.profiles.kip_853.control import VoterAdded, encode_control
from kraftspec.reference.raft.types import Voter

STATE_VERSION = 1
FIRST_SEGMENT = f"{METADATA_NAME}/{0:020d}.log"
FIRST_STATE = f"{METADATA_NAME}/{NAME}"


def bootstrap_log(voters: Sequence[Voter], timestamp_ms: int = 0) -> bytes:
    """Return the log that makes these the first voters: one batch of epoch 0, a record for each.

    The draft has one voter begin. Several may, if each of them begins with these very bytes.
    """
    values = [encode_control(VoterAdded(voter)) for voter in voters]
    return encode_control_values(values, base_offset=0, epoch=0, timestamp_ms=timestamp_ms)


def bootstrap_state(uuid: Uuid) -> bytes:
    """Return the quorum-state of a replica that has its uuid and was in no epoch yet."""
    state = QuorumStateData(voter_uuid=uuid, leader_epoch=0, current_voters=None)
    return render(state, STATE_VERSION)


def bootstrap_files(uuid: Uuid, voters: Sequence[Voter], timestamp_ms: int = 0) -> dict[str, bytes]:
    """Return the files of a first node by their names in its log directory."""
    return {FIRST_STATE: bootstrap_state(uuid), FIRST_SEGMENT: bootstrap_log(voters, timestamp_ms)}
