"""Real clients are built and driven, and fail what they are known to fail alone."""

from __future__ import annotations

import pytest
from tests.conftest import cannot_run

from kraftspec.conformance.clients.clients import command_of, known_file, specs
from kraftspec.conformance.clients.driver import Driver
from kraftspec.conformance.clients.exchange_files import own_files, read_exchanges
from kraftspec.conformance.clients.run import Player, Timing, excuse
from kraftspec.conformance.runner.known import known_failures

NAMES = (
    "plain-produce", "plain-consume", "api-versions-fallback-0", "not-leader-twice",
    "idempotent-answer-lost", "unknown-tags-metadata", "error-is-no-success",
)  # fmt: skip


@pytest.mark.peers
@pytest.mark.parametrize("client", [spec.name for spec in specs()])
def test_a_real_client(client: str) -> None:
    lacks = next(spec for spec in specs() if spec.name == client).missing()
    if lacks:
        cannot_run("; ".join(lacks))
    exchanges = [one for one in read_exchanges(own_files()) if one.name in NAMES]
    exchanges.sort(key=lambda one: NAMES.index(one.name))
    with Driver(command_of(client)) as driver, Player(driver, Timing(30, 60)) as player:
        results = [player.play(exchange) for exchange in exchanges]
    excuse(results, known_failures(client, known_file(client)))
    assert len(results) == len(NAMES)
    assert [one for one in results if not one.passed and one.known is None] == []
    assert results[0].verdict == results[1].verdict == "correct"  # Plain produce and consume.
