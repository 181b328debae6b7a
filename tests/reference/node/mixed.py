"""What the tests of mixed quorums ask of real controllers and of our node."""

from __future__ import annotations

from pathlib import Path

from tests.waiting import until

from kraftspec.conformance.cluster import Cluster
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kraftspec.interop.logs import compare_logs
from kraftspec.interop.ours import Ours, wait_until
from kraftspec.reference.wire.blocking import ask

BROKER_RESOURCE = 4


def set_configs(cluster: Cluster, count: int, size: int = 200) -> None:
    """Let the active controller write ``count`` records, by IncrementalAlterConfigs."""
    kind = IncrementalAlterConfigsRequest
    done = 0

    def set_one() -> bool:
        nonlocal done
        config = kind.AlterableConfig(
            name=f"kraftspec.{done % 10}", config_operation=0, value=f"{done}:".ljust(size, "x")
        )
        resource = kind.AlterConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name="", configs=[config]
        )
        try:
            port = cluster.leader().listener().port
            response = ask(port, kind(resources=[resource]), 1, IncrementalAlterConfigsResponse)
        except (OSError, CodecError):
            return False
        done += response.responses[0].error_code == 0
        return done == count

    wait_until(f"{count} configs are set", set_one, poll_s=0.0)


def assert_agrees(cluster: Cluster, ours: Ours) -> None:
    """Hold our log against that of every live Kafka controller, up to the high watermark."""
    ours.wait_caught_up()
    quorum = cluster.wait_quorum()
    leader = cluster.leader()
    replica = until(ours.replica)
    assert replica is not None
    end_offset = min(quorum.high_watermark, replica.log_end_offset)
    assert compare_logs(leader.metadata_log, ours.metadata_log, end_offset) > 0


def dump(cluster: Cluster, *paths: Path) -> str:
    """What Kafka's DumpLogSegments prints of log files; it must find every batch valid."""
    done = cluster.tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        ",".join(map(str, paths)),
    )
    assert "isvalid: false" not in done.stdout
    assert "Error at" not in done.stdout
    assert "invalid bytes" not in done.stdout
    assert "Exception" not in done.stdout + done.stderr
    return done.stdout
