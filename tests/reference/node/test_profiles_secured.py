"""Quorums of the drafts behind SASL: nodes log in, and of others only who may do something does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.processes import quick
from tests.reference.node.quorum import WAIT_S, run

from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.admin import AdminError, AnswerError, ClientConfig
from kraftspec.reference.admin.client import DraftEndpoint
from kraftspec.reference.admin.config import client_config
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.kip_853.admin import Kip853Admin, draft_joiner_of

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SERVER = f'{MODULE} username="quorum" password="q" user_quorum="q" user_alice="a";'
CLUSTER_AUTHORIZATION_FAILED = 31
SASL_PLAINTEXT = 2  # SecurityProtocol's number.


def settings(profile: str) -> dict[str, str]:
    name = "PLAINTEXT" if profile == "kip-595" else "CONTROLLER"
    return quick(profile) | {
        "listener.security.protocol.map": f"{name}:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"listener.name.{name.lower()}.plain.sasl.jaas.config": SERVER,
        "super.users": "User:quorum",
    }


def client(name: str, password: str) -> ClientConfig:
    return client_config(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{MODULE} username="{name}" password="{password}";',
        }
    )


@pytest.mark.parametrize("profile", ["kip-595", "kip-853", "kip-996"])
def test_a_quorum_behind_sasl(tmp_path: Path, profile: str) -> None:
    is_static = profile == "kip-996"

    async def main() -> None:
        quorum = LocalQuorum(
            tmp_path,
            voters=3 if is_static else 1,
            observers=0 if is_static else 2,
            first_port=free_port(set()),
            profile=profile,
            settings=settings(profile),
        )
        async with quorum:
            leader = await quorum.wait_leader(WAIT_S)
            await leader.append([b"replicated by nodes that have logged in"])
            end_offset = leader.core.log.end_offset
            for node in quorum.nodes.values():
                await node.until(lambda it: it.core.committed_offset >= end_offset, WAIT_S)
            at = leader.config.core.endpoints[0]
            if not is_static:  # KIP-996's messages do not say it.
                assert getattr(at, "security_protocol", 0) == SASL_PLAINTEXT
            every = [node.config.core.endpoints[0] for node in quorum.nodes.values()]
            addresses = ",".join(f"{one.host}:{one.port}" for one in every)
            await asyncio.to_thread(ask_all, profile, addresses)
            if profile == "kip-853":
                path = Path(quorum.nodes[2].config.path)
                await asyncio.to_thread(join, path, f"{at.host}:{at.port}")
                added = leader.core.log.voters.last.endpoints(2)
                first = leader.core.log.voters.last.endpoints(1)  # As it was formatted.
                for one in (*first, *added):
                    assert getattr(one, "security_protocol", 0) == SASL_PLAINTEXT

    def join(path: Path, bootstrap: str) -> None:
        """Its endpoints say by which protocol it is spoken to, in the log and to who asks."""
        joiner = draft_joiner_of(path)
        with Kip853Admin(bootstrap, config=client("quorum", "q")) as admin:
            admin.add_voter(joiner.node_id, joiner.directory_id, joiner.endpoints)
            (told,) = (one for one in admin.describe_quorum().voters if one.id == joiner.node_id)
        assert told.endpoints == joiner.endpoints
        assert isinstance(told.endpoints[0], DraftEndpoint)
        assert told.endpoints[0].security_protocol == SASL_PLAINTEXT

    def ask_all(profile: str, bootstrap: str) -> None:
        kind: Any = parts_of(profile).admin.client
        with kind(bootstrap, config=client("quorum", "q")) as admin:
            assert admin.describe_quorum().leader_id > 0
        with (
            kind(bootstrap, config=client("quorum", "wrong")) as admin,
            pytest.raises(AdminError, match="login failed"),
        ):
            admin.describe_quorum()
        with kind(bootstrap, config=client("alice", "a")) as admin:
            calls = [admin.describe_quorum]
            if profile == "kip-595":
                calls += [admin.find_quorum, lambda: admin.alter_quorum([1])]
            if profile == "kip-853":
                calls += [lambda: admin.remove_voter(1, Uuid.random())]
            for call in calls:
                with pytest.raises(AnswerError) as refused:
                    call()
                assert refused.value.code == CLUSTER_AUTHORIZATION_FAILED

    run(main())
