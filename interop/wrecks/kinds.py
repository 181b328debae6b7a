"""The kinds of wrecks: what each does to a quorum, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable

from kraftspec.interop.logs import batches_of
from kraftspec.interop.reproduce.stage import log_end, remove_voter, wait_voters
from kraftspec.interop.wrecks.making import Making, Plan

Kind = Callable[[Making], Plan]


def leader_kept(making: Making) -> Plan:
    """Of three controllers the leader is left, and all brokers."""
    making.start(controllers=3)
    making.add_topics()
    making.settle()
    return making.keep([making.leader()])


def follower_kept(making: Making) -> Plan:
    """Of three controllers a follower is left, and all brokers."""
    making.start(controllers=3)
    making.add_topics()
    making.settle()
    return making.keep([making.draw.choice(making.followers())])


def graft(making: Making) -> Plan:
    """A controller is left that missed the last topics; the brokers have them."""
    making.start(controllers=3)
    making.add_topics()
    making.settle()
    laggard = making.draw.choice(making.followers())
    laggard.pause()
    making.tell(f"SIGSTOP {laggard.id}, whose log ends at {log_end(laggard)}")
    making.add_topics()
    making.settle(apart_from=laggard)
    return making.keep([laggard])


def two_of_five(making: Making) -> Plan:
    """Of five controllers two are left."""
    making.start(controllers=5)
    making.add_topics()
    making.settle()
    return making.keep(making.draw.sample(making.cluster.controllers, 2))


def static_kept(making: Making) -> Plan:
    """Of three static voters (kraft.version 0) one is left."""
    making.start(controllers=3, quorum="static")
    making.add_topics()
    making.settle()
    return making.keep([making.draw.choice(making.cluster.controllers)])


def torn_tail(making: Making) -> Plan:
    """The log of the controller that is left ends within a batch."""
    plan = leader_kept(making)
    (keeper,) = plan.keep
    segment = max(keeper.metadata_log.glob("*.log"))
    *_, last = batches_of(keeper.metadata_log)
    offset = (last.last_offset + 1).to_bytes(8, "big")
    torn = (offset + last.data[8:])[: making.draw.randrange(1, len(last.data))]
    with segment.open("ab") as log:
        log.write(torn)
    making.tell(f"{len(torn)} of {len(last.data)} bytes of a batch behind the log of {keeper.id}")
    return plan


def lost_voters_return(making: Making) -> Plan:
    """One controller is left; the others come back after it was recovered."""
    plan = leader_kept(making)
    plan.returning = [node for node in making.cluster.controllers if node not in plan.keep]
    return plan


def gridlock(making: Making) -> Plan:
    """Two voters; the leader removes itself, and stops before the other one knows."""
    making.start(controllers=2)
    making.add_topics()
    making.settle()
    leader = making.leader()
    (other,) = making.followers()
    other.pause()
    remove_voter(leader, leader)
    making.tell(f"SIGSTOP {other.id}; {leader.id} appends {wait_voters(leader, [other.id])}")
    return making.keep([leader, other], keepers=[other])


def broker_only(making: Making) -> Plan:
    """All controllers are lost; there is a broker, and a controller that was just formatted."""
    making.start(controllers=3)
    making.add_topics()
    making.settle()
    blank = making.cluster.add_node("controller", start=False)
    making.tell(f"format {blank.id} without voters")
    return making.keep([blank])


def addresses_changed(making: Making) -> Plan:
    """All three controllers are there, and each has another port."""
    making.start(controllers=3)
    making.add_topics()
    making.settle()
    plan = making.keep(making.cluster.controllers)
    plan.moved = True
    return plan


KINDS: dict[str, Kind] = {
    "leader-kept": leader_kept,
    "follower-kept": follower_kept,
    "graft": graft,
    "two-of-five": two_of_five,
    "static-kept": static_kept,
    "torn-tail": torn_tail,
    "lost-voters-return": lost_voters_return,
    "gridlock": gridlock,
    "broker-only": broker_only,
    "addresses-changed": addresses_changed,
}
