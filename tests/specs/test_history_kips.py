"""The history against what the KIPs say, and against another project's tables of versions.

Each expectation is from the KIP that is named, or from the pull request or ticket that carried it
out; none is from our own output.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftspec.codegen.history.states import packaged_history
from kraftspec.codegen.importer import fields_by_path
from kraftspec.codegen.versions import Versions

ROOT = Path(__file__).resolve().parents[2]
STATES = dict(packaged_history().states())
RELEASES = list(STATES)


def before(release: str) -> dict[str, dict[str, Any]]:
    """Return the messages of the release before one."""
    return STATES[RELEASES[RELEASES.index(release) - 1]]


def versions(state: dict[str, dict[str, Any]], name: str) -> Versions:
    return Versions.parse(state[name]["validVersions"] if name in state else "none")


def new_versions(release: str) -> dict[str, tuple[int, ...]]:
    """Return the versions of APIs that a release has and the one before it has not."""
    added = {
        name.removesuffix("Request"): tuple(
            sorted(set(versions(STATES[release], name)) - set(versions(before(release), name)))
        )
        for name, spec in STATES[release].items()
        if spec["type"] == "request"
    }
    return {name: came for name, came in added.items() if came}


# Of APIs: the versions that came, with the reason for each.
CAME = {
    "3.9.0": {
        # KIP-853: membership of controllers; requests name directories.
        **{"AddRaftVoter": (0,), "RemoveRaftVoter": (0,), "UpdateRaftVoter": (0,)},
        **{"Vote": (1,), "BeginQuorumEpoch": (1,), "EndQuorumEpoch": (1,)},
        **{"Fetch": (17,), "FetchSnapshot": (1,), "DescribeQuorum": (2,)},
        # KIP-932: share groups, early access.
        **{"ShareGroupHeartbeat": (0,), "ShareGroupDescribe": (0,)},
        **{"ShareFetch": (0,), "ShareAcknowledge": (0,)},
        **{"InitializeShareGroupState": (0,), "ReadShareGroupState": (0,)},
        **{"WriteShareGroupState": (0,), "DeleteShareGroupState": (0,)},
        **{"ReadShareGroupStateSummary": (0,), "FindCoordinator": (6,)},
        # KIP-1022 and KAFKA-17011: features whose lowest version is 0.
        **{"ApiVersions": (4,), "BrokerRegistration": (4,)},
        # KIP-1005: the latest offset that is tiered.
        "ListOffsets": (9,),
    },
    "4.4.0": {
        "ApiVersions": (5,),  # KIP-1242: connections to the wrong node.
        "TxnOffsetCommit": (6,),  # KIP-1319: topic ids in transactions' offsets.
        # KIP-1331: descriptions of the topologies of Kafka Streams, and why a group stays.
        **{"DeleteGroups": (3,), "StreamsGroupTopologyDescriptionUpdate": (0,)},
        **{"StreamsGroupHeartbeat": (1,), "StreamsGroupDescribe": (1,)},
        "UnregisterController": (0,),  # KAFKA-20395
    },
}


@pytest.mark.parametrize("release", CAME)
def test_the_versions_that_came(release: str) -> None:
    assert new_versions(release) == CAME[release]


def test_the_versions_that_kip_896_removed() -> None:
    """KIP-896: clients' APIs lose what is older than Kafka 2.1, where popular clients allow it."""
    kip_896 = {
        **{"Produce": (0, 1, 2), "Fetch": (0, 1, 2, 3), "ListOffsets": (0,)},
        **{"OffsetCommit": (0, 1), "OffsetFetch": (0,), "JoinGroup": (0, 1)},
        **{"CreateTopics": (0, 1), "DeleteTopics": (0,), "OffsetForLeaderEpoch": (0, 1)},
        **{"DescribeAcls": (0,), "CreateAcls": (0,), "DeleteAcls": (0,)},
        **{"DescribeConfigs": (0,), "AlterReplicaLogDirs": (0,), "DescribeLogDirs": (0,)},
        **{"CreateDelegationToken": (0,), "RenewDelegationToken": (0,)},
        **{"ExpireDelegationToken": (0,), "DescribeDelegationToken": (0,)},
    }
    gone = {
        name.removesuffix("Request"): set(versions(before("4.0.0"), name))
        - set(versions(STATES["4.0.0"], name))
        for name, spec in before("4.0.0").items()
        if spec["type"] == "request"
    }
    lost = {name: tuple(sorted(numbers)) for name, numbers in gone.items() if numbers}
    # KIP-500: what a controller with ZooKeeper sent to its brokers, and they to it.
    zookeeper = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
    # Between brokers, so not the KIP's: older versions that no broker sends since Kafka 3.
    between_brokers = {"WriteTxnMarkers": (0,), "AlterPartition": (0, 1)}
    assert {name: lost[name] for name in lost.keys() - zookeeper} == kip_896 | between_brokers
    assert all(versions(STATES["4.0.0"], f"{name}Request").empty for name in zookeeper)


def test_join_group_came_back() -> None:
    """KAFKA-19444: JoinGroup 0 and 1 again, for older releases of librdkafka with Kerberos."""
    ranges = {
        release: str(versions(STATES[release], "JoinGroupRequest"))
        for release in ("3.9.2", "4.0.0", "4.0.1", "4.1.0")
    }
    assert ranges == {"3.9.2": "0-9", "4.0.0": "2-9", "4.0.1": "0-9", "4.1.0": "0-9"}
    # KAFKA-19494: so 3.9.2 does not call them deprecated any longer.
    assert STATES["3.9.1"]["JoinGroupRequest"]["deprecatedVersions"] == "0-1"
    assert "deprecatedVersions" not in STATES["3.9.2"]["JoinGroupRequest"]


# KIP, release, message, path, and the field's type, versions and tag.
FIELDS = [
    ("KIP-516", "3.1.0", "FetchRequest", "Topics.TopicId", "uuid", "13+", None),
    ("KIP-516", "3.1.0", "FetchRequest", "ForgottenTopicsData.TopicId", "uuid", "13+", None),
    ("KIP-516", "3.1.0", "FetchResponse", "Responses.TopicId", "uuid", "13+", None),
    ("KIP-903", "3.5.0", "FetchRequest", "ReplicaState.ReplicaEpoch", "int64", "15+", None),
    ("KIP-903", "3.5.0", "FetchRequest", "ReplicaState.ReplicaId", "int32", "15+", None),
    ("KIP-951", "3.7.0", "FetchResponse", "NodeEndpoints", "[]NodeEndpoint", "16+", 0),
    ("KIP-951", "3.7.0", "ProduceResponse", "NodeEndpoints", "[]NodeEndpoint", "10+", 0),
    ("KIP-951", "3.7.0", "ProduceResponse", "Responses.PartitionResponses.CurrentLeader",
     "LeaderIdAndEpoch", "10+", 0),
    ("KIP-858", "3.7.0", "PartitionRecord", "Directories", "[]uuid", "1+", None),
    ("KIP-966", "3.7.0", "PartitionRecord", "EligibleLeaderReplicas", "[]int32", "2+", 1),
    ("KIP-853", "3.9.0", "FetchRequest", "Topics.Partitions.ReplicaDirectoryId", "uuid", "17+", 0),
    ("KIP-853", "3.9.0", "VoteRequest", "VoterId", "int32", "1+", None),
    ("KIP-853", "3.9.0", "VoteRequest", "Topics.Partitions.VoterDirectoryId", "uuid", "1+", None),
    ("KIP-853", "3.9.0", "VoteResponse", "NodeEndpoints", "[]NodeEndpoint", "1+", 0),
    ("KIP-996", "4.0.0", "VoteRequest", "Topics.Partitions.PreVote", "bool", "2+", None),
    ("KIP-1166", "4.1.0", "FetchRequest", "Topics.Partitions.HighWatermark", "int64", "18+", 1),
    ("KIP-516", "4.1.0", "ProduceRequest", "TopicData.TopicId", "uuid", "13+", None),
    ("KIP-1186", "4.2.0", "AddRaftVoterRequest", "AckWhenCommitted", "bool", "1+", None),
    ("KIP-1242", "4.4.0", "ApiVersionsRequest", "ClusterId", "string", "5+", None),
    ("KIP-1242", "4.4.0", "ApiVersionsRequest", "NodeId", "int32", "5+", None),
    ("KIP-1319", "4.4.0", "TxnOffsetCommitRequest", "Topics.TopicId", "uuid", "6+", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kip", "release", "message", "path", "kind", "since", "tag"),
    FIELDS,
    ids=[f"{kip} {message} {path}" for kip, _, message, path, *_ in FIELDS],
)
def test_a_field_that_a_kip_brought(
    kip: str, release: str, message: str, path: str, kind: str, since: str, tag: int | None
) -> None:
    assert path not in dict(fields_by_path(before(release)[message]))
    field = dict(fields_by_path(STATES[release][message]))[path]
    assert (field["type"], field["versions"], field.get("tag")) == (kind, since, tag)


# KIP, release, API, key.
APIS = [
    ("KIP-664", "3.0.0", "DescribeTransactions", 65),
    ("KIP-664", "3.0.0", "ListTransactions", 66),
    ("KIP-730", "3.0.0", "AllocateProducerIds", 67),
    ("KIP-848", "3.5.0", "ConsumerGroupHeartbeat", 68),
    ("KIP-848", "3.7.0", "ConsumerGroupDescribe", 69),
    ("KIP-919", "3.7.0", "ControllerRegistration", 70),
    ("KIP-714", "3.7.0", "GetTelemetrySubscriptions", 71),
    ("KIP-714", "3.7.0", "PushTelemetry", 72),
    ("KIP-858", "3.7.0", "AssignReplicasToDirs", 73),
    ("KIP-1000", "3.7.0", "ListClientMetricsResources", 74),
    ("KIP-966", "3.8.0", "DescribeTopicPartitions", 75),
    ("KIP-932", "3.9.0", "ShareFetch", 78),
    ("KIP-853", "3.9.0", "AddRaftVoter", 80),
    ("KIP-853", "3.9.0", "RemoveRaftVoter", 81),
    ("KIP-853", "3.9.0", "UpdateRaftVoter", 82),
    ("KIP-1071", "4.1.0", "StreamsGroupHeartbeat", 88),
    ("KIP-1071", "4.1.0", "StreamsGroupDescribe", 89),
    ("KIP-1142", "4.1.0", "ListConfigResources", 74),
    ("KIP-1331", "4.4.0", "StreamsGroupTopologyDescriptionUpdate", 93),
]


@pytest.mark.parametrize(
    ("kip", "release", "api", "key"), APIS, ids=[f"{kip} {api}" for kip, _, api, _ in APIS]
)
def test_an_api_that_a_kip_brought(kip: str, release: str, api: str, key: int) -> None:
    for name in (f"{api}Request", f"{api}Response"):
        assert name not in before(release)
        assert STATES[release][name]["apiKey"] == key


# Another project's tables: franz-go has the highest version of each API that a broker of a release
# offers, taken from real brokers; those before 4.0 use ZooKeeper.
KVERSION = """package main

import (
	"encoding/json"
	"os"

	"github.com/twmb/franz-go/pkg/kversion"
)

func main() {
	releases := map[string]map[int16]int16{}
	for _, name := range kversion.VersionStrings() {
		offered := map[int16]int16{}
		kversion.FromString(name).EachMaxKeyVersion(func(k, v int16) { offered[k] = v })
		releases[name] = offered
	}
	if err := json.NewEncoder(os.Stdout).Encode(releases); err != nil {
		panic(err)
	}
}
"""


def offered(release: str) -> Iterator[tuple[str, int]]:
    """Yield key and highest final version of what a broker of a release offers to clients."""
    listener = "zkBroker" if release.startswith(("2.", "3.")) else "broker"
    for name, spec in STATES[release].items():
        if spec["type"] == "request" and listener in spec.get("listeners", ()):
            highest = versions(STATES[release], name).highest
            final = highest - bool(spec.get("latestVersionUnstable"))
            if final >= 0:
                yield str(spec["apiKey"]), final


@pytest.mark.peers
def test_another_project_knows_the_same_versions(tmp_path: Path) -> None:
    module = ROOT / "conformance/making/capture/clients/go"
    for name in ("go.mod", "go.sum"):
        shutil.copy(module / name, tmp_path)
    (tmp_path / "main.go").write_text(KVERSION, "utf-8")
    done = subprocess.run(
        ["go", "run", "."], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
    )
    tables = {f"{name[1:]}.0": table for name, table in json.loads(done.stdout).items()}
    compared = {release: table for release, table in tables.items() if release in STATES}
    assert set(compared) >= {r for r in RELEASES if r.endswith(".0") and r <= "4.4.0"}
    assert {release: dict(offered(release)) for release in compared} == compared
    assert sum(map(len, compared.values())) > 1000
