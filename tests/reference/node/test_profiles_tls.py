"""Quorums of the drafts over TLS: nodes show each other certificates, and nobody else gets in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.reference.node.processes import patient
from tests.reference.node.quorum import WAIT_S, run

from kraftspec.conformance.cluster.node import free_port
from kraftspec.reference.admin import AdminError, AnswerError, ClientConfig
from kraftspec.reference.admin.config import client_config
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.kip_853.admin import Kip853Admin, draft_joiner_of
from kraftspec.reference.raft import RoleName

from .certificates import PASSWORD, Authority
from .secured import client_properties

CLUSTER_AUTHORIZATION_FAILED = 31
SSL = 1  # SecurityProtocol's number.


def settings(home: Path, profile: str, authority: Authority) -> dict[str, str]:
    """Properties of nodes that share a host, and so a certificate; who connects has to have one."""
    name = "PLAINTEXT" if profile == "kip-595" else "CONTROLLER"
    key = authority.sign("node").write_pkcs12(home / "key.p12")
    trust = authority.write_pkcs12(home / "trust.p12")
    return patient(profile, fetch_ms=3000) | {
        "listener.security.protocol.map": f"{name}:SSL",
        "ssl.keystore.location": str(key),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(trust),
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
        "super.users": "User:CN=node,O=Tests",
    }


def client(
    home: Path, trusted: Authority, *, of: Authority | None, name: str = "node"
) -> ClientConfig:
    """A client that trusts an authority, with a certificate ``of`` one, or without."""
    identity = None if of is None else of.sign(name)
    return client_config(client_properties(home, trusted, "SSL", identity=identity))


@pytest.mark.soak
@pytest.mark.parametrize("profile", ["kip-595", "kip-853", "kip-996"])
def test_a_quorum_over_tls(tmp_path: Path, profile: str) -> None:
    """Three voters elect, commit by a majority, and elect again when their leader is gone."""
    authority, other = Authority(), Authority("another")

    async def main() -> None:
        quorum = LocalQuorum(
            tmp_path / "quorum",
            voters=3,
            first_port=free_port(set()),
            profile=profile,
            settings=settings(tmp_path, profile, authority),
        )
        async with quorum:
            leader = await quorum.wait_leader(WAIT_S)
            if profile == "kip-853":  # It begins with one voter.
                others = [
                    path
                    for id, path in quorum.properties.items()
                    if id != leader.core.config.node_id
                ]
                await asyncio.to_thread(add_voters, others, quorum.bootstrap)
            assert len(leader.core.log.voters.last) == 3
            await append(quorum, leader)
            every = [node.config.core.endpoints[0] for node in quorum.nodes.values()]
            if profile != "kip-996":  # Its messages do not say it.
                assert {getattr(one, "security_protocol", 0) for one in every} == {SSL}
            addresses = ",".join(f"{one.host}:{one.port}" for one in every)
            await asyncio.to_thread(ask, addresses)
            leader = await quorum.wait_leader(WAIT_S)
            gone = leader.config.core.node_id
            await quorum.kill(gone)
            await append(quorum, await quorum.wait_leader(WAIT_S, apart_from=gone))

    def add_voters(paths: list[Path], bootstrap: str) -> None:
        with Kip853Admin(bootstrap, config=client(tmp_path / "j", authority, of=authority)) as it:
            for path in paths:
                joiner = draft_joiner_of(path)
                it.add_voter(joiner.node_id, joiner.directory_id, joiner.endpoints)

    async def append(quorum: LocalQuorum, leader: Any) -> None:
        await leader.append([b"replicated over TLS"])
        end_offset = leader.core.log.end_offset
        for node in quorum.nodes.values():
            await node.until(lambda it: it.core.committed_offset >= end_offset, WAIT_S)
        roles = [node.core.role.name for node in quorum.nodes.values()]
        assert RoleName.LEADER in roles

    def ask(bootstrap: str) -> None:
        kind: Any = parts_of(profile).admin.client
        with kind(bootstrap, config=client(tmp_path / "a", authority, of=authority)) as admin:
            assert admin.describe_quorum().leader_id > 0
        # A certificate without rights.
        known = client(tmp_path / "k", authority, of=authority, name="alice")
        with kind(bootstrap, config=known) as admin, pytest.raises(AnswerError) as forbidden:
            admin.describe_quorum()
        assert forbidden.value.code == CLUSTER_AUTHORIZATION_FAILED
        # No certificate; one that nobody trusts; nodes that are not trusted; and no TLS at all.
        refused = [
            client(tmp_path / "b", authority, of=None),
            client(tmp_path / "c", authority, of=other),
            client(tmp_path / "d", other, of=authority),
            ClientConfig(),
        ]
        for config in refused:
            brief = msgspec.structs.replace(config, api_timeout_ms=1_000)
            with kind(bootstrap, config=brief) as admin, pytest.raises(AdminError):
                admin.describe_quorum()

    run(main())
