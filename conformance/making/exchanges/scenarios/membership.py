"""Voters added, removed and updated (KIP-853), and why they are not."""

from __future__ import annotations

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.peers import versions_answer
from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.making.exchanges.scenarios.case import Case, since
from kraftspec.conformance.making.exchanges.scenarios.elections import campaigning, leads, single
from kraftspec.conformance.making.exchanges.scenarios.wire import EPOCH
from kraftspec.fastpath.types import ZERO_UUID

ADD_VERSIONS = range(2)
API_VERSIONS_REQUESTED = 5  # The version in which a 4.4.0 controller asks.


def _commit(r: Recording, voters: tuple[int, ...]) -> None:
    """Let these fetch all there is."""
    for voter in voters:
        r.ask(rq.fetch(17, EPOCH, r.end, last_epoch=EPOCH, sender=voter), 17)


def uncommitted(r: Recording) -> None:
    """A leader that does not know its high watermark changes no voters."""
    for version in ADD_VERSIONS:
        r.ask(rq.add_voter(version), version)
    r.ask(rq.remove_voter(), 0)
    r.ask(rq.update_voter(EPOCH), 0)


def refused(r: Recording) -> None:
    """What a leader that could change voters refuses."""
    _commit(r, (2,))
    wrong = rq.directory_id(rq.NOBODY)
    for version in ADD_VERSIONS:
        r.ask(rq.add_voter(version, cluster_id=rq.OTHER_CLUSTER_ID), version)
        r.ask(rq.add_voter(version, -1), version, note="no id")
        r.ask(rq.add_voter(version, directory=ZERO_UUID), version, note="no directory id")
        r.ask(rq.add_voter(version, listener=None), version, note="no endpoint")
        r.ask(rq.add_voter(version, listener="OTHER"), version, note="no endpoint of that name")
        r.ask(rq.add_voter(version, 2), version, note="a voter already")
        r.ask(rq.add_voter(version, 2, directory=wrong), version, note="the id of a voter")
        r.ask(rq.add_voter(version, rq.ME), version, note="itself")
    r.ask(rq.remove_voter(cluster_id=rq.OTHER_CLUSTER_ID), 0)
    r.ask(rq.remove_voter(-1), 0, note="no id")
    r.ask(rq.remove_voter(directory=ZERO_UUID), 0, note="no directory id")
    r.ask(rq.remove_voter(4), 0, note="no voter")
    r.ask(rq.remove_voter(directory=wrong), 0, note="another disk of a voter")
    r.ask(rq.update_voter(EPOCH, cluster_id=rq.OTHER_CLUSTER_ID), 0)
    r.ask(rq.update_voter(EPOCH - 1), 0, note="an older epoch")
    r.ask(rq.update_voter(EPOCH + 1), 0, note="a newer epoch")
    r.ask(rq.update_voter(EPOCH, -1), 0, note="no id")
    r.ask(rq.update_voter(EPOCH, directory=ZERO_UUID), 0, note="no directory id")
    r.ask(rq.update_voter(EPOCH, listener=None), 0, note="no endpoint")
    r.ask(rq.update_voter(EPOCH, listener="OTHER"), 0, note="no endpoint of that name")
    r.ask(rq.update_voter(EPOCH, versions=(1, 0)), 0, note="no range of versions")
    r.ask(rq.update_voter(EPOCH, versions=(-1, 1)), 0, note="a negative version")
    r.ask(rq.update_voter(EPOCH, versions=(0, 0)), 0, note="not the version in force")
    r.ask(rq.update_voter(EPOCH, 4), 0, note="no voter")
    r.ask(rq.update_voter(EPOCH, directory=wrong), 0, note="another disk of a voter")
    r.ask(rq.describe_quorum(), 2)


def refused_static(r: Recording) -> None:
    """kraft.version 0 knows no changes."""
    uncommitted(r)
    _commit(r, (2,))
    for version in ADD_VERSIONS:
        r.ask(rq.add_voter(version), version)
        r.ask(rq.add_voter(version, 2), version)
        r.ask(rq.add_voter(version, -1), version)
    r.ask(rq.remove_voter(), 0)
    r.ask(rq.remove_voter(4), 0)
    r.ask(rq.remove_voter(-1), 0)
    r.ask(rq.update_voter(EPOCH), 0, note="kept in memory")
    r.ask(rq.update_voter(EPOCH), 0, note="again")
    r.ask(rq.update_voter(EPOCH, 4), 0, note="no voter")
    r.ask(rq.update_voter(EPOCH, listener=None), 0, note="no endpoint")
    r.ask(rq.update_voter(EPOCH, versions=(1, 1)), 0, note="not the version in force")
    r.ask(rq.describe_quorum(), 2)


def updates(r: Recording) -> None:
    """A voter has moved."""
    _commit(r, (2,))
    r.ask(rq.update_voter(EPOCH), 0, note="nothing new", writes=True)
    r.ask(rq.update_voter(EPOCH, port=14_099), 0, note="while the last is not committed")
    _commit(r, (2,))
    r.ask(rq.update_voter(EPOCH, port=14_099), 0, note="another port", writes=True)
    r.ask(rq.describe_quorum(), 2)
    _commit(r, (2,))
    r.ask(rq.describe_quorum(), 2)


def removals(r: Recording) -> None:
    """Voters go, one after the other; the last one stays."""
    _commit(r, (2,))
    r.ask(rq.remove_voter(3), 0, note="committed by the others", writes=True, late=True)
    r.ask(rq.remove_voter(2), 0, note="one at a time")
    for version in ADD_VERSIONS:
        r.ask(rq.add_voter(version), version)
    r.ask(rq.update_voter(EPOCH, 2), 0)
    r.ask(rq.describe_quorum(), 2, note="it votes no longer, though that is not committed")
    _commit(r, (2,))
    r.collect()
    r.ask(rq.remove_voter(3), 0, note="again")
    r.ask(rq.remove_voter(2), 0, note="what is left commits it alone", writes=True)
    r.ask(rq.remove_voter(rq.ME), 0, note="the last one")
    r.ask(rq.describe_quorum(), 2)
    r.ask(rq.fetch(17, EPOCH, r.end, last_epoch=EPOCH, sender=3), 17, note="who voted observes")
    r.ask(rq.describe_quorum(), 2)


def additions(r: Recording) -> None:
    """A node alone takes in another."""
    end = r.end
    for version in ADD_VERSIONS:
        r.ask(rq.add_voter(version, rq.ME), version, note="itself")
    r.ask(rq.remove_voter(rq.ME), 0, note="the last one")
    for offset in (0, end):
        message = rq.fetch(17, EPOCH, offset, last_epoch=EPOCH if offset else 0, sender=4)
        r.ask(message, 17, note="who wants to join observes")
    r.ask(rq.describe_quorum(), 2)
    r.ask(rq.add_voter(0), 0, note="committed by both", late=True)
    for version in ADD_VERSIONS:
        r.ask(rq.add_voter(version), version, note="one at a time")
    r.ask(rq.remove_voter(rq.ME), 0)
    r.answer(4, versions_answer(), API_VERSIONS_REQUESTED, note="what it speaks", writes=True)
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=EPOCH, sender=4), 17, note="the new voters")
    r.ask(rq.describe_quorum(), 2)
    _commit(r, (4,))
    r.collect()
    r.ask(rq.describe_quorum(), 2)
    for version in ADD_VERSIONS:
        r.ask(rq.add_voter(version), version, note="again")
        other = rq.directory_id(rq.NOBODY)
        r.ask(rq.add_voter(version, directory=other), version, note="with another disk")
    r.ask(rq.remove_voter(4), 0, writes=True, late=True)
    _commit(r, ())
    r.ask(rq.describe_quorum(), 2)
    r.collect()


def hasty(r: Recording) -> None:
    """Who need not wait for the commit."""
    end = r.end
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=EPOCH, sender=4), 17)
    r.ask(rq.add_voter(1, ack_when_committed=False), 1, note="told when appended", late=True)
    r.answer(4, versions_answer(), API_VERSIONS_REQUESTED, writes=True)
    r.collect()
    r.ask(rq.add_voter(1, 2), 1, note="while it is not committed")
    r.ask(rq.remove_voter(4), 0)
    _commit(r, (4,))
    r.ask(rq.describe_quorum(), 2)


def unfit(r: Recording) -> None:
    """Who speaks no kraft.version 1, or is not caught up."""
    end = r.end
    silent = versions_answer()
    silent.supported_features = []
    old = versions_answer()
    old.supported_features[0].max_version = 0
    for answer, note in ((silent, "does not know kraft.version"), (old, "speaks 0 only")):
        r.ask(rq.add_voter(0), 0, note=note, late=True)
        r.answer(4, answer, API_VERSIONS_REQUESTED)
        r.collect()
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=EPOCH, sender=4), 17)
    r.ask(rq.describe_quorum(), 2)


MEMBERSHIP = (
    Case("voters-uncommitted", "lives", campaigning, leads(uncommitted)),
    Case("voters-refused", "lives", campaigning, leads(refused)),
    Case("voters-refused-static", "static", campaigning, leads(refused_static)),
    Case("voters-updates", "lives", campaigning, leads(updates)),
    Case("voters-removals", "lives", campaigning, leads(removals)),
    Case("voters-additions", "alone", single, additions),
    Case("voters-hasty", "alone", single, hasty, since("4.2.2")),
    Case("voters-unfit", "alone", single, unfit),
)
