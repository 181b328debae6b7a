"""The admin client at a quorum of ours, whose answers get lost on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.reference.node.test_secured import Loop

from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import AddRaftVoterRequest, RemoveRaftVoterRequest
from kraftspec.reference.admin import AdminClient, AnswerError
from kraftspec.reference.admin.added_controller import AddedController, added_controller_of
from kraftspec.reference.admin.config import load_client_config
from kraftspec.reference.admin.connection import Connection
from kraftspec.reference.local.quorum import LocalQuorum

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    """A voter and an observer."""
    local = LocalQuorum(
        tmp_path_factory.mktemp("quorum"), voters=1, observers=1, first_port=free_port(set())
    )
    with Loop() as loop:
        loop.run(local.__aenter__())
        try:
            loop.run(local.wait_leader(PATIENCE_S))
            yield local
        finally:
            loop.run(local.stop())


def can_be_added(admin: AdminClient, node_id: int) -> bool:
    """Whether an observer has had all there was: others are not added (KIP-853)."""
    observers = admin.describe_quorum().observers
    return any(one.id == node_id and one.last_caught_up_ms >= 0 for one in observers)


@pytest.fixture
def admin(quorum: LocalQuorum) -> Iterator[AdminClient]:
    with AdminClient(quorum.bootstrap, to_controllers=True) as client:
        deadline = time.monotonic() + PATIENCE_S
        while not can_be_added(client, 2):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield client


@pytest.fixture
def added(quorum: LocalQuorum) -> AddedController:
    return added_controller_of(load_client_config(str(quorum.properties[2])).properties)


def lose(monkeypatch: pytest.MonkeyPatch, kind: type[Any], *, is_sent: bool) -> list[Any]:
    """Break the connection at the first request of a kind, before or after it was answered."""
    requests: list[Any] = []
    ask = Connection.ask

    def broken(self: Connection, request: Any, *others: Any) -> Any:
        if not isinstance(request, kind):
            return ask(self, request, *others)
        requests.append(request)
        if len(requests) > 1:
            return ask(self, request, *others)
        if is_sent:
            ask(self, request, *others)
        self.close()
        raise ConnectionResetError("the connection broke")

    monkeypatch.setattr(Connection, "ask", broken)
    return requests


def voters_of(admin: AdminClient) -> set[int]:
    return {voter.id for voter in admin.describe_quorum().voters}


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_change_is_made_once_though_its_answer_is_lost(
    admin: AdminClient, added: AddedController, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    adds = lose(monkeypatch, AddRaftVoterRequest, is_sent=is_sent)
    admin.add_voter(*added)
    assert len(adds) == 2
    assert voters_of(admin) == {1, 2}
    monkeypatch.undo()
    removes = lose(monkeypatch, RemoveRaftVoterRequest, is_sent=is_sent)
    admin.remove_voter(added.node_id, added.directory_id)
    assert len(removes) == 2
    assert voters_of(admin) == {1}


def test_what_somebody_else_did_is_no_success(
    admin: AdminClient, added: AddedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id is there with another directory: whatever was lost, this was not done."""
    admin.add_voter(*added)
    try:
        adds = lose(monkeypatch, AddRaftVoterRequest, is_sent=False)
        other = added._replace(directory_id=Uuid.random())
        with pytest.raises(AnswerError, match=r"DUPLICATE_VOTER \(126\)"):
            admin.add_voter(*other)
        assert len(adds) == 2
    finally:
        monkeypatch.undo()
        admin.remove_voter(added.node_id, added.directory_id)


def test_a_refusal_of_the_first_attempt_stands(admin: AdminClient, added: AddedController) -> None:
    with pytest.raises(AnswerError, match=r"VOTER_NOT_FOUND \(127\)"):
        admin.remove_voter(added.node_id, added.directory_id)


def test_a_cluster_id_that_is_given_is_compared(admin: AdminClient, added: AddedController) -> None:
    with pytest.raises(AnswerError, match=r"INCONSISTENT_CLUSTER_ID \(104\)"):
        admin.add_voter(*added, cluster_id="another")
    with pytest.raises(AnswerError, match=r"INCONSISTENT_CLUSTER_ID \(104\)"):
        admin.remove_voter(added.node_id, added.directory_id, cluster_id="another")
