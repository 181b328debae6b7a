"""Whether a cure of a wreck has worked, on real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kraftspec.conformance.cluster import ClusterError, Node
from kraftspec.fastpath.errors import CodecError
from kraftspec.interop.ours import CheckFailedError, wait_until
from kraftspec.interop.wrecks.client import (
    NotDoneError,
    Records,
    append,
    create_topic,
    leaders,
    missing,
    read_topics,
)
from kraftspec.interop.wrecks.manifest import Manifest
from kraftspec.interop.wrecks.standing import Standing
from kraftspec.reference.admin.client import AdminClient
from kraftspec.reference.admin.errors import AdminError

CONTROLLERS = 3  # What the quorum is grown back to.
SERVING_S = 240.0
AFTERWARDS = "after-recovery"
Changes = dict[int, dict[str, str]]  # Properties that a cure wants changed, by node id.


# Recovers a wreck in its directory: the log directories are HOME/ROLES-ID/data-0. Returns the
# properties that nodes are to be started with.
Cure = Callable[[Path, Manifest], Changes]


def judge(
    home: Path, manifest: Manifest, cure: Cure, say: Callable[[str], None] = lambda text: None
) -> list[str]:
    """Cure a copy of a wreck and try everything that must work then; return what does not.

    An empty list is a quorum that is whole again.
    """
    with Standing(home, manifest) as standing:
        live = [facts for facts in manifest.nodes if facts.state == "live"]
        for facts in live:
            standing.start(standing.nodes[facts.id])
        if any(facts.roles == "controller" for facts in live):
            standing.wait_leader()
        changes = cure(home, manifest)
        try:
            return _tried(standing, changes, say)
        except (CheckFailedError, ClusterError, AdminError) as error:
            return [str(error)]


def _tried(standing: Standing, changes: Changes, say: Callable[[str], None]) -> list[str]:
    manifest = standing.manifest
    keepers = [standing.nodes[id] for id in manifest.keep]
    for node in keepers:
        if not node.running():
            standing.start(node, changes.get(node.id))
    say(f"{standing.wait_leader()} leads")
    brokers = _nodes(standing, "broker")
    for node in brokers:
        if not node.running():
            standing.start(node, changes.get(node.id))
    for node in brokers:
        node.wait_healthy()
    wanted = {name: manifest.truth.records[name] for name in manifest.truth.kept}
    lost = _lost(brokers, wanted)
    if lost:
        return lost
    say(f"{len(wanted)} topics are whole")
    if unended := set(manifest.truth.unended):
        unended &= set(leaders(brokers[0].listener().port))
        if unended:
            return [f"topics of a transaction that did not end are there: {sorted(unended)}"]
    returning = [standing.nodes[id] for id in manifest.returning]
    for node in returning:  # At once: they might be a majority of what they know.
        standing.start(node)
    for node in returning:
        node.wait_healthy()
        say(f"{node.id} is back; {standing.wait_leader()} leads")
    _grow(standing, keepers, say)
    keepers[0].kill()
    say(f"{keepers[0].id} is killed; {standing.wait_leader()} leads")
    wanted[AFTERWARDS] = [["one", "two"]]
    _write(brokers, wanted[AFTERWARDS][0])
    return _lost(brokers, wanted)


def _nodes(standing: Standing, roles: str) -> list[Node]:
    """Return the nodes of a kind that the wreck has."""
    ids = [node.id for node in standing.manifest.nodes if node.roles == roles]
    return [standing.nodes[id] for id in ids]


def _grow(standing: Standing, keepers: Iterable[Node], say: Callable[[str], None]) -> None:
    """Let there be three voters."""
    if standing.manifest.quorum == "static" and "--to-dynamic" not in standing.manifest.options:
        with AdminClient(standing.running_controllers(), to_controllers=True) as admin:
            admin.upgrade_feature("kraft.version", 1)
        say("kraft.version is 1")
    for _ in range(len(list(keepers)), CONTROLLERS):
        say(f"{standing.add_controller().id} is added")
    # A voter that does not know it yet would keep the others from electing a leader, for ever
    # (docs/findings/kraft-gridlock.md): no controller is killed before all have the last voters.
    end = -1 if (quorum := standing.quorum()) is None else quorum.high_watermark

    def know_it() -> bool:
        now = standing.quorum()
        voters = [] if now is None else now.current_voters
        return len(voters) == CONTROLLERS and all(one.log_end_offset >= end >= 0 for one in voters)

    wait_until("three voters have the voters in their logs", know_it)


def _lost(brokers: list[Node], wanted: Records) -> list[str]:
    """Return what of ``wanted`` the brokers do not have, once they serve or time is up."""
    lost: list[str] = []

    def has_all() -> bool:
        try:
            have = read_topics(brokers[0].listener().port, list(wanted))
        except (NotDoneError, OSError, CodecError) as error:
            lost[:] = [str(error)]
            return False
        lost[:] = missing(wanted, have)
        return not lost

    try:
        wait_until("the brokers have every record", has_all, timeout_s=SERVING_S)
    except CheckFailedError as error:
        return [f"{error}: {'; '.join(lost)}"]
    return []


def _write(brokers: list[Node], values: list[str]) -> None:
    """Create a topic and append to it, as soon as that is possible."""
    port = brokers[0].listener().port
    wait_until("a topic is created", lambda: _is_created(port))
    append(port, AFTERWARDS, 0, values)


def _is_created(port: int) -> bool:
    try:
        create_topic(port, AFTERWARDS, 1, 1)
    except (NotDoneError, OSError, CodecError):
        return False
    return True
