"""What the transcripts have to show between them: every transition, every error, every message.

The tables here are written from the KIPs and from ``KafkaRaftClient``; what the transcripts show is
read from the bytes in them. So one that is lost, or an error that nobody wrote down, is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kraftspec.generated import kafka as generated
from kraftspec.generated.errors import ErrorCode as E
from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft.transitions import TRANSITIONS

DIRECTORY = Path(__file__).resolve().parents[1] / "transcripts"

_MESSAGE = re.compile(r"  (?P<source>\w+)->\w+ (?P<name>\w+?)(?P<reply>Reply)? v(?P<version>\d+)\b")
_HEX = re.compile(r"      (?P<hex>(?:[0-9a-f]{2})+)$")
_ROLE = re.compile(r"  \d+ role (?P<old>\w+) -> (?P<new>\w+) .*?voted=\S+ \((?P<cause>.*)\)$")
# How the generated messages are named, where the core's words are shorter.
_API = {
    "BeginEpoch": "BeginQuorumEpoch",
    "EndEpoch": "EndQuorumEpoch",
    "AddVoter": "AddRaftVoter",
    "RemoveVoter": "RemoveRaftVoter",
    "UpdateVoter": "UpdateRaftVoter",
}
API_VERSIONS_FIELDS = 3  # Earlier requests have none, and so no bytes.


class Shown(NamedTuple):
    """A message of a transcript, decoded from its bytes. ``by_node``: a node of ours sent it."""

    api: str
    is_reply: bool
    version: int
    by_node: bool
    body: dict[str, Any]


def _nodes(lines: list[str]) -> set[str]:
    """Return the nodes that run in a transcript; whoever else answers is made up by it."""
    quorum = next(line.split() for line in lines if line.startswith("quorum "))
    nodes = [word.removeprefix("nodes=") for word in quorum if word.startswith("nodes=")]
    return set((nodes or quorum[1:2])[0].split(","))


def _shown() -> Iterator[Shown]:
    for path in sorted(DIRECTORY.glob("*.txt")):
        lines = path.read_text("utf-8").splitlines()
        nodes = _nodes(lines)
        for index, line in enumerate(lines):
            match = _MESSAGE.match(line)
            if match is None:
                continue
            data, after = "", ""
            for after in lines[index + 1 :]:
                part = _HEX.match(after)
                if part is None:
                    break
                data += part["hex"]
            api = _API.get(match["name"], match["name"])
            version = int(match["version"])
            is_empty = api == "ApiVersions" and not match["reply"] and version < API_VERSIONS_FIELDS
            if " cannot read " in after or not (data or is_empty):
                continue  # They are not such a message; or it is told without its bytes.
            kind: Any = getattr(generated, api + ("Response" if match["reply"] else "Request"))
            body = kind.decode(bytes.fromhex(data), version).to_json(version)
            yield Shown(api, bool(match["reply"]), version, match["source"] in nodes, body)


SHOWN = list(_shown())


def _errors(value: Any, *, top: bool) -> Iterator[int]:
    """Yield the error codes of a response: of the whole, or of what it has about this log."""
    for name, part in value.items():
        if name == "errorCode" and top:
            yield part
        elif isinstance(part, list) and not top:
            for entry in part:
                if isinstance(entry, dict):
                    yield from _errors(entry, top=True)
                    yield from _errors(entry, top=False)


# ---- the table of transitions ------------------------------------------------------------------


# A Follower has its leader's address, at a start from the voter set alone. A leader in it is
# one more voter, so a Follower is never the only one; ``start-sole-voter-by-now`` shows who is.
NEVER = {("follower", "prospective", "start as the only voter")}


def test_every_transition_is_shown() -> None:
    shown = set()
    for path in DIRECTORY.glob("*.txt"):
        for line in path.read_text("utf-8").splitlines():
            match = _ROLE.match(line)
            if match:
                shown.add(match.group("old", "new", "cause"))
    table = {
        (str(role), str(target), str(cause))
        for role, causes in TRANSITIONS.items()
        for cause, target in causes.items()
    }
    starts = {one for one in shown if one[2] == "start"}
    assert {new for _, new, _ in starts} == {"unattached", "follower", "candidate", "resigned"}
    assert shown - starts == table - NEVER
    assert table >= NEVER


# ---- what each request can be answered -----------------------------------------------------------

# Request → errors of the request as a whole, errors about this log; 0 (NONE) is left out of both.
ANSWERS: dict[str, tuple[set[E], set[E]]] = {
    "Vote": (
        {E.INCONSISTENT_CLUSTER_ID, E.INVALID_REQUEST},
        {E.INVALID_REQUEST, E.FENCED_LEADER_EPOCH, E.INVALID_VOTER_KEY},
    ),
    "BeginQuorumEpoch": (
        {E.INCONSISTENT_CLUSTER_ID, E.INVALID_REQUEST},
        {E.INVALID_REQUEST, E.FENCED_LEADER_EPOCH, E.INVALID_VOTER_KEY},
    ),
    "EndQuorumEpoch": (
        {E.INCONSISTENT_CLUSTER_ID, E.INVALID_REQUEST},
        {E.INVALID_REQUEST, E.FENCED_LEADER_EPOCH},
    ),
    "Fetch": (
        {E.INCONSISTENT_CLUSTER_ID, E.INVALID_REQUEST},
        {
            *(E.INVALID_REQUEST, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH),
            *(E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_SERVER_ERROR),
        },
    ),
    "FetchSnapshot": (
        {E.INCONSISTENT_CLUSTER_ID, E.INVALID_REQUEST},
        {
            *(E.UNKNOWN_TOPIC_OR_PARTITION, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH),
            *(E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_SERVER_ERROR),
            *(E.SNAPSHOT_NOT_FOUND, E.POSITION_OUT_OF_RANGE),
        },
    ),
    "DescribeQuorum": (set(), {E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_LEADER_OR_FOLLOWER}),
    # These have one error code each.
    "AddRaftVoter": (
        {
            *(E.INCONSISTENT_CLUSTER_ID, E.NOT_LEADER_OR_FOLLOWER, E.INVALID_REQUEST),
            *(E.REQUEST_TIMED_OUT, E.UNSUPPORTED_VERSION, E.DUPLICATE_VOTER),
        },
        set(),
    ),
    "RemoveRaftVoter": (
        {
            *(E.INCONSISTENT_CLUSTER_ID, E.NOT_LEADER_OR_FOLLOWER, E.INVALID_REQUEST),
            *(E.REQUEST_TIMED_OUT, E.UNSUPPORTED_VERSION, E.VOTER_NOT_FOUND),
        },
        set(),
    ),
    "UpdateRaftVoter": (
        {
            *(E.INCONSISTENT_CLUSTER_ID, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH),
            *(E.NOT_LEADER_OR_FOLLOWER, E.INVALID_REQUEST, E.REQUEST_TIMED_OUT),
            E.VOTER_NOT_FOUND,
        },
        set(),
    ),
    # A version that is not served (35) is the server's to refuse, before it can be read.
    "ApiVersions": ({E.INVALID_REQUEST}, set()),
}


@pytest.mark.parametrize("api", ANSWERS)
def test_every_error_of_a_request_is_shown_and_no_other(api: str) -> None:
    answers = [one.body for one in SHOWN if one.api == api and one.is_reply and one.by_node]
    top = {error for body in answers for error in _errors(body, top=True)}
    log = {error for body in answers for error in _errors(body, top=False)}
    expected_top, expected_log = ANSWERS[api]
    assert top == {0} | expected_top
    assert log == ({0} | expected_log if expected_log else set())


def test_votes_are_given_and_refused() -> None:
    for pre_vote in (False, True):
        versions = {
            one.version
            for one in SHOWN
            if one.api == "Vote"
            and not one.is_reply
            and one.body["topics"]
            and one.body["topics"][0]["partitions"][0].get("preVote", False) == pre_vote
        }
        assert versions == ({2} if pre_vote else {0, 1, 2})
    granted = {
        partition["voteGranted"]
        for one in SHOWN
        if one.api == "Vote" and one.is_reply and one.by_node
        for topic in one.body["topics"]
        for partition in topic["partitions"]
    }
    assert granted == {False, True}


# What a node makes of an answer depends on its error: those that have a rule.
ERRORS = {
    "Vote": {
        *(E.UNSUPPORTED_VERSION, E.CLUSTER_AUTHORIZATION_FAILED, E.FENCED_LEADER_EPOCH),
        *(E.UNKNOWN_LEADER_EPOCH, E.BROKER_NOT_AVAILABLE, E.INVALID_VOTER_KEY, E.INVALID_REQUEST),
    },
    "Fetch": {E.INCONSISTENT_CLUSTER_ID, E.FENCED_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER},
    "FetchSnapshot": {E.SNAPSHOT_NOT_FOUND},
    "ApiVersions": {E.UNSUPPORTED_VERSION},
    "AddRaftVoter": {E.REQUEST_TIMED_OUT, E.DUPLICATE_VOTER, E.INVALID_REQUEST},
    "RemoveRaftVoter": {E.VOTER_NOT_FOUND},
}


@pytest.mark.parametrize("api", ERRORS)
def test_what_a_node_makes_of_an_error_is_shown(api: str) -> None:
    """In the answers to requests of nodes of ours, whoever gave them."""
    answers = [one.body for one in SHOWN if one.api == api and one.is_reply]
    errors = {e for body in answers for top in (True, False) for e in _errors(body, top=top)}
    assert errors >= ERRORS[api]


# ---- messages and bytes ------------------------------------------------------------------------

FETCH_FROM = 13  # Earlier ones do not name a topic by its id, and so are about no log of a quorum.


def test_every_version_of_every_message_is_shown_in_hex_and_in_words() -> None:
    shown = {(one.api, one.is_reply, one.version) for one in SHOWN}
    apis = KafkaProfile().apis.values()
    assert len(apis) == 10
    for api in apis:
        first = FETCH_FROM if api.name == "Fetch" else api.min_version
        for version in range(first, api.max_version + 1):
            assert (api.name, False, version) in shown, f"{api.name}Request {version}"
            assert (api.name, True, version) in shown, f"{api.name}Response {version}"


@pytest.mark.parametrize(
    "line",
    [
        r"  \d+ append offsets=\S+ epoch=\d+ records=",
        r"  \d+ append offsets=\S+ epoch=\d+ LeaderChange ",
        r"  \d+ append offsets=\S+ epoch=\d+ .*KRaftVersion level=",
        r"  \d+ append offsets=\S+ epoch=\d+ .*Voters voters=",
        r"  \d+ write-snapshot ",
        r"  \d+ finish-snapshot ",
        r"  \d+ \d{20}\.log size=",
        r"  \d+ 0{20}-0{10}\.checkpoint size=",
    ],
)
def test_the_bytes_of_logs_and_snapshots_are_shown(line: str) -> None:
    pattern = re.compile(line + r".*\n {6}[0-9a-f]{40}", re.MULTILINE)
    assert any(pattern.search(path.read_text("utf-8")) for path in DIRECTORY.glob("*.txt"))


@pytest.mark.parametrize("version", [0, 1])
def test_the_bytes_of_quorum_state_are_shown(version: int) -> None:
    pattern = re.compile(rf'^    \{{.*"data_version":{version}\}}$', re.MULTILINE)
    assert any(pattern.search(path.read_text("utf-8")) for path in DIRECTORY.glob("*.txt"))


# The worked examples and tables of the drafts that apply to what was shipped, and who plays them.
EXAMPLES = {
    "KIP-595, Note on Gridlocked Elections: three voters, two online": (
        "seed-595-gridlock-two-of-three"
    ),
    "KIP-595, Note on Gridlocked Elections: an even number, a split vote": "seed-595-gridlock-four",
    "KIP-595, Note on Gridlocked Elections: two voters, seen at once": "seed-595-two-voters",
    "KIP-595, LeaderChangeMessage of the first leader": "seed-595-first-election",
    "KIP-595, the new quorum state is reverted when it is truncated": "truncate-reverts-voters",
    "KIP-853, AddVoter, Handling": "add-voter",
    "KIP-853, RemoveVoter, Handling": "remove-voter",
    "KIP-853, how a replica recovers a replaced disk": "replace-disk",
    "KIP-996, T0 to T6, without pre-votes": "seed-996-disk-loss-without-pre-vote",
    "KIP-996, T0 to T6, with pre-votes": "seed-996-disk-loss",
    "KIP-996, scenario A": "seed-996-scenario-a",
    "KIP-996, scenario B": "seed-996-scenario-b",
    "KIP-996, a standard vote after enough pre-votes": "transition-prospective-won",
    "KIP-996, back when pre-votes are refused": "transition-prospective-lost",
    "KIP-996, the answers are too few": "transition-prospective-timed-out",
    "KIP-996, of several answers the first counts": "vote-first-answer-counts",
    "KIP-996, a candidate that is not elected is Prospective again": (
        "transition-candidate-timed-out"
    ),
    "KIP-996, Check Quorum": "check-quorum-unblocks",
    "KIP-996, Compatibility: a voter that knows no pre-vote": "transition-prospective-unsupported",
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_drafts_are_played(example: str) -> None:
    text = (DIRECTORY / f"{EXAMPLES[example]}.txt").read_text("utf-8")
    sources = [line for line in text.splitlines() if line.startswith("# Source: ")]
    kip = example.partition(",")[0]
    assert any(f"{kip} draft" in line or "The drafts" in line for line in sources), sources


# Fix of a profile → the transcripts in which it holds, and in which it is switched off.
BOTH_SIDES = {
    "kafka": {
        "removed-when-committed": ("remove-voter-leader-again", "remove-voter-leader-stuck"),
    },
    "kip-595": {
        "own-epoch-commit": ("own-epoch-first", "own-epoch-first-without"),
        "one-first-quorum": ("bootstrap-mixed", "bootstrap-mixed-without"),
        "deaf-to-strangers": ("vote-stranger-leader-heard", "vote-stranger-leader-heard-without"),
        "strangers-in-need": ("vote-stranger-in-need", "vote-stranger-in-need-without"),
        "caught-up-first": ("caught-up-first", "caught-up-first-without"),
        "settled-cluster-id": ("settled-cluster-id", "settled-cluster-id-without"),
        "check-quorum": ("check-quorum", "check-quorum-without"),
        "ask-back": ("ask-back", "ask-back-without"),
        "bump-when-lost": ("bump-when-lost", "bump-when-lost-without"),
        "leader-stays": ("leader-stays", "leader-stays-without"),
    },
    "kip-853": {
        "own-epoch-first": ("own-epoch-first", "own-epoch-first-without"),
        "removed-before-replaced": ("replaced-in-two", "replaced-in-one-without"),
        "removed-when-committed": ("remove-voter-leader-again", "remove-voter-leader-stuck"),
        "voter-uuid": ("voter-uuid", "voter-uuid-without"),
        "check-quorum": ("check-quorum", "check-quorum-without"),
    },
    "kip-996": {
        "pre-vote": ("disk-loss", "disk-loss-without-pre-vote"),
        "pre-votes-alone": ("disk-loss", "disk-loss-standard-votes"),
        "check-quorum": ("check-quorum", "check-quorum-without"),
        "leader-refuses": ("leader-refuses", "leader-refuses-not"),
        "own-word": ("own-word", "anothers-word"),
        "epoch-first": ("pre-vote-higher-epoch", "pre-vote-higher-epoch-without"),
    },
}
# What it fixes takes chance: `test_without_the_rule_it_disturbs_again_and_again` of kip-853 has it.
BY_CHANCE = {("kip-853", "loser-steps-down")}


@pytest.mark.parametrize("name", BOTH_SIDES)
def test_every_cure_is_shown_with_and_without(name: str) -> None:
    fixes = {(name, fix) for fix in profile_named(name).fixes}
    assert fixes - BY_CHANCE == {(name, fix) for fix in BOTH_SIDES[name]}
    directory = DIRECTORY if name == KAFKA else DIRECTORY / name
    for fix, (whole, without) in BOTH_SIDES[name].items():
        played = [
            (directory / f"{one}.txt").read_text("utf-8").splitlines() for one in (whole, without)
        ]
        assert f"profile {name}" in played[0]
        assert f"profile {name} without={fix}" in played[1]
