"""What a node answers: the quorum's own APIs by its core, and the few that only its host can.

Apache Kafka's tools find the controllers of ``--bootstrap-controller`` by DescribeCluster, which
has to do with the node's network and not with its log (KIP-919). Brokers, and controllers of
Kafka's, look for the active controller where the leader is.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ApiVersionsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    CreateTopicsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kraftspec.reference.node.controllers import Unregistration
from kraftspec.reference.node.features import begin_update
from kraftspec.reference.raft.types import address
from kraftspec.reference.wire.apis import Api

if TYPE_CHECKING:
    from kraftspec.reference.raft import Core

CONTROLLER_ENDPOINTS: Final = 2  # EndpointType of DescribeCluster


class ShellApi(NamedTuple):
    """An API that the core has no part in: (core, request, version, listener) to the response.

    Or it has, and the answer waits for what it says: then it is to an ``UpgradeRequested``, or to
    the append of an ``Unregistration``.
    """

    api: Api
    answer: Callable[[Core, Any, int, str], Any]


def describe_cluster(
    core: Core, request: DescribeClusterRequest, version: int, listener: str
) -> DescribeClusterResponse:
    """DescribeCluster (KIP-700, KIP-919): the voters, where they are, and which of them leads."""
    endpoint_type = request.endpoint_type if version else 1
    if endpoint_type != CONTROLLER_ENDPOINTS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of the wrong type.",
            endpoint_type=CONTROLLER_ENDPOINTS if version else 1,
        )
    config = core.config
    endpoints = {voter.key.id: voter.endpoints for voter in core.log.voters.last}
    endpoints[config.node_id] = config.endpoints
    if core.leader_id >= 0 and core.leader_endpoints:
        endpoints[core.leader_id] = core.leader_endpoints
    nodes = [address(node_id, known, listener) for node_id, known in sorted(endpoints.items())]
    return DescribeClusterResponse(
        endpoint_type=CONTROLLER_ENDPOINTS,
        cluster_id=config.cluster_id,
        controller_id=core.leader_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port
            )
            for node in nodes
            if node is not None
        ],
    )


def _not_controller(request: Any, response: Any) -> ShellApi:
    """An API of the active controller, which a node of ours is not, whether it leads or not.

    A broker takes the quorum's leader for the controller. It looks for another one after
    NOT_CONTROLLER (``NodeToControllerRequestThread``), and does not where the API is not served.
    """
    return ShellApi(
        Api.of(request, response), lambda *_: response(error_code=ErrorCode.NOT_CONTROLLER)
    )


SHELL_APIS: Final = {
    shell.api.key: shell
    for shell in (
        ShellApi(Api.of(DescribeClusterRequest, DescribeClusterResponse), describe_cluster),
        _not_controller(AllocateProducerIdsRequest, AllocateProducerIdsResponse),
        _not_controller(AlterPartitionRequest, AlterPartitionResponse),
        _not_controller(AssignReplicasToDirsRequest, AssignReplicasToDirsResponse),
        _not_controller(BrokerHeartbeatRequest, BrokerHeartbeatResponse),
        _not_controller(BrokerRegistrationRequest, BrokerRegistrationResponse),
        _not_controller(ControllerRegistrationRequest, ControllerRegistrationResponse),
        _not_controller(EnvelopeRequest, EnvelopeResponse),
        ShellApi(
            Api.of(UnregisterControllerRequest, UnregisterControllerResponse),
            lambda _, request, *__: Unregistration(request.controller_id),
        ),
        ShellApi(Api.of(UpdateFeaturesRequest, UpdateFeaturesResponse), begin_update),
    )
}


def is_controller(versions: Container[int]) -> bool:
    """Whether a node that serves these APIs is a Kafka controller: it can create a topic."""
    return CreateTopicsRequest.API_KEY in versions


def unsupported_api_versions(api: Api) -> ApiVersionsResponse:
    """Return the answer to an ApiVersions of an unknown version, always in version 0 (KIP-511).

    It names the versions of ApiVersions itself, with which to ask again.
    """
    assert api.key == ApiVersionsResponse.API_KEY
    entry = ApiVersionsResponse.ApiVersion(
        api_key=api.key, min_version=api.min_version, max_version=api.max_version
    )
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
