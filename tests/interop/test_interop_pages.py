"""The commands of Kafka's own tools on the pages for operators, on real controllers."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from kraftspec.conformance.cluster import (
    QUORUM_COMMAND,
    RELEASE,
    TOOLS_RELEASE,
    Cluster,
    ClusterError,
)
from kraftspec.interop.ours import wait_until
from kraftspec.interop.reproduce.stage import directory_id, wait_voters

DOCS = Path(__file__).resolve().parents[2] / "docs"
TOOLS = {
    "kafka-metadata-quorum.sh": (QUORUM_COMMAND, TOOLS_RELEASE),
    "kafka-storage.sh": ("kafka.tools.StorageTool", RELEASE),
}


def lines() -> list[str]:
    pages = [DOCS / f"quorum-{name}.md" for name in ("down", "changes")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    return re.findall(r"^kafka-\S+\.sh .*$", text, re.MULTILINE)


def typed(cluster: Cluster, line: str, names: Mapping[str, str]) -> str:
    """Type a line of a page, with what its names stand for here; return what it prints."""
    tool, *arguments = shlex.split(line)
    given = [names.get(argument, argument) for argument in arguments]
    main_class, release = TOOLS[tool]
    return cluster.tool(main_class, *given, release=release).stdout


@pytest.mark.kafka
def test_the_commands_of_kafka_on_the_pages(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path.resolve(), controllers=1, brokers=0, quorum="standalone")
    with cluster:
        status, format_, replication, add, remove = lines()
        first = cluster.leader()
        names = {
            "HOST:9093": cluster.controller_bootstrap(),
            "CLUSTER_ID": cluster.cluster_id,
        }
        assert re.search(rf"LeaderId:\s+{first.id}\b", typed(cluster, status, names))
        new = cluster.add_node("controller", start=False)
        shutil.rmtree(new.metadata_log.parent)
        names |= {
            "controller.properties": str(new.properties_path),
            "NEW.properties": str(new.properties_path),
            "ID": str(new.id),
        }
        typed(cluster, format_, names)
        names["DIRECTORY_ID"] = str(directory_id(new))
        new.start()
        new.wait_healthy()

        def is_added() -> bool:  # Not before it has caught up.
            with suppress(ClusterError):
                typed(cluster, add, names)
            return new.id in {voter.replica_id for voter in cluster.wait_quorum().current_voters}

        wait_until("the controller is a voter", is_added)
        wait_voters(first, [first.id, new.id])
        output = typed(cluster, replication, names)
        assert {"Lag", "LastCaughtUpTimestamp"} <= set(output.split())
        assert len(re.findall(r"\b(?:Leader|Follower)\b", output)) == 2
        typed(cluster, remove, names)
        wait_voters(first, [first.id])
