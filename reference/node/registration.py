"""Telling the active controller that this node exists (KIP-919, ControllerRegistration).

A Kafka controller raises no feature, kraft.version among them, before every voter has registered
and says that it bears the new level. Once in a life of a node is enough: the registration is a
record of the metadata log. A leader of our own kind is no controller and takes none.

What this node supports is what the leader itself does, and of kraft.version its own range: it keeps
the records of the metadata log as they are, and reads none but control records.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from kraftspec.reference.node.apis import is_controller
from kraftspec.reference.node.client import Peer, Peers, who_asks
from kraftspec.reference.profiles.kafka.membership import KRAFT_VERSION
from kraftspec.reference.raft.follower import Follower

if TYPE_CHECKING:
    from kraftspec.reference.node.runtime import Node
    from kraftspec.reference.raft import types as raft

BACKOFF_S: Final = 0.1  # ControllerRegistrationManager
BACKOFF_MAX_S: Final = 10.0  # A node's registration may stand in the way of an operator.

log = logging.getLogger("kraftspec.node.registration")


async def register(node: Node) -> None:
    """Try until an active controller has taken the registration."""
    incarnation = Uuid.random()
    backoff_s = BACKOFF_S
    while True:
        await node.until(lambda it: isinstance(it.core.role, Follower), None)
        role, epoch = node.core.role, node.core.epoch
        assert isinstance(role, Follower)
        reason = await _tell(node, role.leader, incarnation)
        if reason is None:
            log.info("registered", extra={"node": node.config.node_id, "leader": role.leader.id})
            return
        log.debug("not registered", extra={"node": node.config.node_id, "reason": reason})
        if reason is _NO_CONTROLLER:
            newer = partial(_is_newer, epoch)
            await node.until(newer, None)
            continue
        await asyncio.sleep(backoff_s)
        backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)


_NO_CONTROLLER: Final = "the leader is no Kafka controller"


def _is_newer(epoch: int, node: Node) -> bool:
    return node.core.epoch > epoch


async def _tell(node: Node, leader: raft.Node, incarnation: Uuid) -> str | None:
    """Ask a leader, on a connection for this alone; return why it was in vain."""
    peers = Peers(node.peers.asker)
    peer = Peer(peers, leader)
    try:
        async with asyncio.timeout(node.peers.asker.request_timeout_s):
            versions = await peer.connected()
            if not is_controller(versions):
                return _NO_CONTROLLER
            newest = ApiVersionsRequest.VALID_VERSIONS.stop - 1
            spoken = await peer.exchange(
                ApiVersionsRequest, ApiVersionsResponse, newest, who_asks(newest)
            )
            said = await peer.exchange(
                ControllerRegistrationRequest,
                ControllerRegistrationResponse,
                0,
                _request(node, incarnation, spoken.supported_features),
            )
    except (OSError, CodecError) as error:
        return str(error) or type(error).__name__
    finally:
        peer.close()
    if said.error_code == ErrorCode.NONE:
        return None
    return said.error_message or ErrorCode(said.error_code).name


def _request(node: Node, incarnation: Uuid, features: Any) -> ControllerRegistrationRequest:
    kind = ControllerRegistrationRequest
    ranges = {feature.name: (feature.min_version, feature.max_version) for feature in features}
    lowest, highest = node.config.core.kraft_versions
    ranges[KRAFT_VERSION] = (lowest, highest)
    return kind(
        controller_id=node.config.node_id,
        incarnation_id=incarnation,
        listeners=[
            kind.Listener(
                name=listener.name,
                host=listener.advertised_host,
                port=listener.advertised_port,
                security_protocol=listener.protocol.number,
            )
            for listener in node.config.listeners
        ],
        features=[
            kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(ranges.items())
        ],
    )
