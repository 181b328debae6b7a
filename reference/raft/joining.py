"""What a follower asks its leader about the voter set, on its own account, once in a period.

A voter says who it is (KIP-853, UpdateRaftVoter). A controller that only observes may ask to become
a voter (KIP-1186, ``controller.quorum.auto.join.enable``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.reference.raft.messages import AddVoter, RemoveVoter, Request, UpdateVoter

if TYPE_CHECKING:
    from kraftspec.reference.raft.core import Core


def membership_request(core: Core, has_updated_leader: bool) -> Request | None:
    """Return what to ask now, if anything."""
    if core.is_voter:
        return _update(core) if _must_update(core, has_updated_leader) else None
    config = core.config
    may_join = config.auto_join and config.can_become_voter
    return _join(core) if may_join and core.log.kraft_versions.last >= 1 else None


def _must_update(core: Core, has_updated_leader: bool) -> bool:
    """Whether the leader should hear of this voter's endpoints and versions.

    With kraft.version 1 when they are not what stands in the voter set; with 0, once a leader,
    which keeps them in memory for the upgrade.
    """
    log = core.log
    if log.kraft_versions.last >= 1:
        return log.voters.last.needs_update(core.config.voter)
    return not has_updated_leader


def _update(core: Core) -> UpdateVoter:
    config = core.config
    return UpdateVoter(
        cluster_id=config.cluster_id,
        leader_epoch=core.epoch,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        endpoints=config.endpoints,
        kraft_versions=config.kraft_versions,
    )


def _join(core: Core) -> Request:
    """Ask to be added; or, if this id votes under another directory, for its removal."""
    config = core.config
    old = core.log.voters.last.get(config.node_id)
    if old is not None:
        return RemoveVoter(
            cluster_id=config.cluster_id,
            voter_id=old.key.id,
            voter_directory_id=old.key.directory_id,
        )
    return AddVoter(
        cluster_id=config.cluster_id,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        endpoints=config.endpoints,
        ack_when_committed=False,
        timeout_us=config.request_timeout_us,
    )
