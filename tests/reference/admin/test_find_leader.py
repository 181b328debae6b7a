"""Looking for a leader that nobody names: all addresses at once, and then a wait."""

from __future__ import annotations

from typing import Any

import pytest

from kraftspec.reference.admin import AdminClient, AnswerError
from kraftspec.reference.profiles.kip_595.admin import Kip595Admin
from kraftspec.reference.profiles.kip_853.admin import Kip853Admin
from kraftspec.reference.profiles.kip_996.admin import Kip996Admin

ADDRESSES = "a:1,b:2,c:3,d:4,e:5"
NOT_LEADER_OR_FOLLOWER = 6
NOT_QUORUM_LEADER = 20001
REFUSALS = 13  # Two rounds of five and three more: the fourth of the third round leads.


def waits_until_found(
    kind: Any, refusal: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[float], list[int]]:
    """Return the waits of a client that is refused, and which addresses it asked."""
    waits: list[float] = []
    addresses: list[int] = []
    monkeypatch.setattr("kraftspec.reference.admin.caller.time.sleep", waits.append)
    with kind(ADDRESSES) as admin:

        def attempt(_deadline_s: float) -> None:
            addresses.append(admin._next)
            if len(addresses) <= REFUSALS:
                raise AnswerError(refusal)

        admin._call(attempt)
    return waits, addresses


@pytest.mark.parametrize("kind", [Kip853Admin, Kip996Admin])
def test_there_is_a_wait_after_a_round_and_none_in_it(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, addresses = waits_until_found(kind, NOT_LEADER_OR_FOLLOWER, monkeypatch)
    assert addresses == [*range(5), *range(5), *range(4)]
    assert len(waits) == 2
    assert 0.08 <= waits[0] <= 0.12  # KIP-580: 100 ms, ±20 %, and twice as long the next time.
    assert 0.16 <= waits[1] <= 0.24


@pytest.mark.parametrize(
    ("kind", "refusal"), [(AdminClient, NOT_LEADER_OR_FOLLOWER), (Kip595Admin, NOT_QUORUM_LEADER)]
)
def test_who_may_be_told_waits_each_time(
    kind: Any, refusal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody says there where the leader is, so a refusal says that it has just changed."""
    waits, _ = waits_until_found(kind, refusal, monkeypatch)
    assert len(waits) == REFUSALS
