"""What an answer to a change of the voters promises, and that a broken promise is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft.membership import Change, Membership
from kraftspec.reference.raft.messages import AddVoterReply, ApiVersionsReply
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.simulation.run import simulate

PROFILE = KafkaProfile()
SHORT = 1_500
# The first of some hundred seeds with each of the changes below.
ADDS_UNWAITED, ADDS, REMOVES, UPDATES = 16, 3, 21, 31


def broken(seed: int) -> str | None:
    violation = simulate(seed, PROFILE, events=SHORT).violation
    return None if violation is None else violation[0]


def early(which: str, end: str) -> Callable[[Any, int], None]:
    """Answer when all before the record is committed, and it is not."""
    moved = Membership.high_watermark_moved

    def answer(self: Any, offset: int) -> None:
        change = getattr(self, which)
        if change is not None and 0 <= change.last_offset <= offset:
            getattr(self, end)(0)
        moved(self, offset)

    return answer


@pytest.mark.parametrize(
    ("seed", "which", "end"),
    [(ADDS, "adding", "_end_adding"), (REMOVES, "removing", "_end_removing")],
)
def test_an_answer_that_was_to_wait_for_the_commit(
    seed: int, which: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken(seed) is None
    monkeypatch.setattr(Membership, "high_watermark_moved", early(which, end))
    assert broken(seed) == "answered_change_is_committed"


def test_an_answer_that_was_not_to_wait_has_its_record_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = Membership._append_voters

    def keep(self: Membership, change: Change, voters: VoterSet) -> None:
        if change.ack_when_committed:
            append(self, change, voters)
        else:
            change.last_offset = self.core.log.end_offset

    assert broken(ADDS_UNWAITED) is None
    monkeypatch.setattr(Membership, "_append_voters", keep)
    assert broken(ADDS_UNWAITED) == "answered_change_is_committed"


def test_so_has_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    assert broken(UPDATES) is None
    monkeypatch.setattr(Membership, "update", lambda *_: 0)
    assert broken(UPDATES) == "answered_change_is_committed"


def test_the_record_may_be_written_after_the_answer_in_the_same_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Kafka's leader does it. Our own writes first."""
    answered = 0
    append = Membership._append_voters

    def answer_first(self: Membership, change: Change, voters: VoterSet) -> None:
        nonlocal answered
        if not change.ack_when_committed and change.token is not None:
            self.core.answer(change.token, AddVoterReply())
            change.token = None
            answered += 1
        append(self, change, voters)

    monkeypatch.setattr(Membership, "_append_voters", answer_first)
    assert broken(ADDS_UNWAITED) is None
    assert answered


def test_our_leader_writes_before_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that does not wait finds the record in the log that the core has."""
    answered = 0
    on_api_versions = Membership.on_api_versions

    def look(self: Membership, node_id: int, reply: ApiVersionsReply) -> bool:
        nonlocal answered
        change, before = self.adding, self.core.log.end_offset
        result = on_api_versions(self, node_id, reply)
        if change is not None and not change.ack_when_committed and change.token is None:
            answered += 1
            names = [type(effect).__name__ for effect in self.core.effects]
            assert names.index("AppendControl") < names.index("Answer")
            assert change.last_offset >= before
        return result

    monkeypatch.setattr(Membership, "on_api_versions", look)
    assert broken(ADDS_UNWAITED) is None
    assert answered


def test_a_leader_that_does_not_act_on_what_it_wrote_is_seen_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer is true: the record is in its log."""
    append = Membership._append_voters

    def forget(self: Membership, change: Change, voters: VoterSet) -> None:
        append(self, change, voters)
        if not change.ack_when_committed:
            self.core.log.voters.truncate_from(change.last_offset)

    monkeypatch.setattr(Membership, "_append_voters", forget)
    assert broken(ADDS_UNWAITED) == "voters_follow_log"
