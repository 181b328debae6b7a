"""Registration of this node with the active controller (KIP-919, ControllerRegistration).

A Kafka controller raises no feature, kraft.version among them, before every voter has registered
and supports the new level. A registration is a record of the metadata log, so that one in an
incarnation is enough, as long as nobody unregisters the node. A leader that is a kraftspec node is
no controller and takes none.

What this node supports is what the release does that it speaks as. So a leader of a later release
raises no feature beyond that as long as this node is there.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    UnregisterControllerRecord,
)
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.node.apis import is_controller
from kraftspec.reference.node.client import Asker, Peer, Peers
from kraftspec.reference.node.controllers import supported_features
from kraftspec.reference.raft.follower import Follower

if TYPE_CHECKING:
    from kraftspec.reference.node.asyncio_host import AsyncioHost
    from kraftspec.reference.node.settings import NodeConfig
    from kraftspec.reference.raft import types as raft

BACKOFF_S: Final = 0.1  # ControllerRegistrationManager
BACKOFF_MAX_S: Final = 10.0  # An operator may wait for the registration.

log = logging.getLogger("kraftspec.node.registration")


async def register(node: AsyncioHost, config: NodeConfig, asker: Asker) -> None:
    """Register with the active controller, and again whenever the registration is taken back."""
    incarnation = Uuid.random()
    while True:
        await _register(node, config, asker, incarnation)
        await node.until(_Unregistered(node, config.node_id), None)
        log.info("unregistered", extra={"node": config.node_id})


class _Unregistered:
    """Whether what was committed since has the record that a controller was unregistered."""

    def __init__(self, node: AsyncioHost, node_id: int) -> None:
        self._value = write_frame(UnregisterControllerRecord(controller_id=node_id), 0)
        self._position = node.core.committed_offset

    def __call__(self, node: AsyncioHost) -> bool:
        metadata, committed = node.storage.log, node.core.committed_offset
        start, self._position = max(self._position, metadata.start_offset), committed
        batches = metadata.batches(start, min(committed, metadata.end_offset))
        return any(self._value in data[header.position : header.end] for header, data in batches)


async def _register(node: AsyncioHost, config: NodeConfig, asker: Asker, incarnation: Uuid) -> None:
    """Try until an active controller has taken the registration."""
    backoff_s = BACKOFF_S
    while True:
        await node.until(lambda it: isinstance(it.core.role, Follower), None)
        role, epoch = node.core.role, node.core.epoch
        assert isinstance(role, Follower)
        reason = await _send(asker, config, role.leader, incarnation)
        if reason is None:
            log.info("registered", extra={"node": config.node_id, "leader": role.leader.id})
            return
        log.debug("not registered", extra={"node": config.node_id, "reason": reason})
        if reason is _NO_CONTROLLER:
            newer = partial(_is_newer, epoch)
            await node.until(newer, None)
            continue
        await asyncio.sleep(backoff_s)
        backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)


_NO_CONTROLLER: Final = "the leader is no Kafka controller"


def _is_newer(epoch: int, node: AsyncioHost) -> bool:
    return node.core.epoch > epoch


async def _send(
    asker: Asker, config: NodeConfig, leader: raft.Node, incarnation: Uuid
) -> str | None:
    """Register with a leader, on a connection for this alone; return the reason of a failure."""
    peers = Peers(asker)
    peer = Peer(peers, leader)
    try:
        async with asyncio.timeout(asker.request_timeout_s):
            versions = await peer.connected()
            if not is_controller(versions):
                return _NO_CONTROLLER
            request = _request(config, incarnation, asker.profile.release)
            response = await peer.exchange(request, 0, ControllerRegistrationResponse)
    except (OSError, CodecError) as error:
        return str(error) or type(error).__name__
    finally:
        peer.close()
    if response.error_code == ErrorCode.NONE:
        return None
    return response.error_message or ErrorCode(response.error_code).name


def _request(
    config: NodeConfig, incarnation: Uuid, release: str | None
) -> ControllerRegistrationRequest:
    kind = ControllerRegistrationRequest
    ranges = supported_features(config.core.kraft_versions, release)
    return kind(
        controller_id=config.node_id,
        incarnation_id=incarnation,
        listeners=[
            kind.Listener(
                name=listener.name,
                host=listener.advertised_host,
                port=listener.advertised_port,
                security_protocol=listener.protocol.number,
            )
            for listener in config.listeners
        ],
        features=[
            kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(ranges.items())
        ],
    )
