"""The kinds of wrecks: what each does to a quorum, and what is left of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping

from kraftspec.conformance.cluster import Node
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import BeginTransactionRecord, TopicRecord
from kraftspec.interop.logs import batches_of
from kraftspec.interop.ours import wait_until
from kraftspec.interop.reproduce.stage import log_end, remove_voter, wait_voters
from kraftspec.interop.wrecks.making import Making, Plan
from kraftspec.reference.log.directory import FIRST_CHECKPOINT
from kraftspec.reference.metadata.frames import write_frame

_CRC, _TIMES = 17, (34, 42)  # In a batch: the CRC of what follows, the ends of both times.
Kind = Callable[[Making], Plan]
SMALL_LOGS = {
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "internal.metadata.log.segment.bytes": "16384",  # A larger batch ends the controller.
    "metadata.max.retention.bytes": "16384",
}
CLEANED_S = 300.0  # A node looks once a minute for what snapshots made superfluous.


def leader_kept(making: Making) -> Plan:
    """Of three controllers the leader is left, and all brokers."""
    making.start_with_topics(controllers=3)
    return making.keep([making.leader()])


def follower_kept(making: Making) -> Plan:
    """Of three controllers a follower is left, and all brokers."""
    making.start_with_topics(controllers=3)
    return making.keep([making.draw.choice(making.followers())])


def _behind(making: Making, properties: Mapping[str, str] = {}) -> Node:
    """Stop a follower of three controllers; what the others then append is not in its log."""
    making.start_with_topics(controllers=3, properties=properties)
    laggard = making.draw.choice(making.followers())
    laggard.pause()
    making.tell(f"SIGSTOP {laggard.id}, whose log ends at {log_end(laggard)}")
    making.add_topics()
    return laggard


def graft(making: Making) -> Plan:
    """A controller is left that missed the last topics; the brokers have them."""
    laggard = _behind(making)
    making.settle(apart_from=laggard)
    return making.keep([laggard])


def killed(making: Making) -> Plan:
    """As graft; the command is killed amid each of its changes, and typed again."""
    plan = graft(making)
    plan.is_killed = True
    return plan


def checkpoint_between(making: Making) -> Plan:
    """As graft; the brokers' logs begin, with a checkpoint, behind the end of the keeper's."""
    laggard = _behind(making, SMALL_LOGS)
    end = log_end(laggard)

    def begin_behind() -> bool:
        making.add_topics()
        others = [node for node in making.cluster.nodes.values() if node is not laggard]
        return all(_log_start(node) > end for node in others)

    wait_until("the logs begin behind the keeper's", begin_behind, timeout_s=CLEANED_S)
    making.tell(f"the brokers' logs begin behind {end}")
    making.settle(apart_from=laggard)
    return making.keep([laggard])


def _log_start(node: Node) -> int:
    return min(int(path.stem) for path in node.metadata_log.glob("*.log"))


def two_of_five(making: Making) -> Plan:
    """Of five controllers two are left."""
    making.start_with_topics(controllers=5)
    return making.keep(making.draw.sample(making.cluster.controllers, 2))


def static_kept(making: Making) -> Plan:
    """Of three static voters (kraft.version 0) one is left."""
    making.start_with_topics(controllers=3, quorum="static")
    plan = making.keep([making.draw.choice(making.cluster.controllers)])
    plan.options = ["--endpoint"]  # No log of theirs has it, and the properties need it.
    return plan


def blanks_first(making: Making) -> Plan:
    """As static-kept; the others lost their disks, started first, and have an empty leader."""
    plan = static_kept(making)
    blanks = [node for node in making.cluster.controllers if node not in plan.keep]
    for node in blanks:
        shutil.rmtree(node.metadata_log.parent)
        making.cluster.format(node)
        node.start()
    leader = making.leader()
    wait_until("both have records of it", lambda: all(map(_has_data, blanks)))
    making.tell(f"new disks of {', '.join(str(node.id) for node in blanks)}; {leader.id} leads")
    for node in blanks:
        node.kill()
    return plan


def blanks_given(making: Making) -> Plan:
    """As blanks-first, and the directories with the empty leader's log are given: refused."""
    plan = blanks_first(making)
    plan.given += [node for node in making.cluster.controllers if node not in plan.given]
    plan.live = []
    plan.expect = "two-committed-branches"
    # It depends on the epochs of both, and on who led them.
    plan.beside = ["same-epoch-two-contents", "two-leaders"]
    return plan


def _has_data(node: Node) -> bool:
    return any(not batch.is_control for batch in batches_of(node.metadata_log))


def open_transaction(making: Making) -> Plan:
    """The log of the controller that is left ends amid a metadata transaction with topics."""
    plan = leader_kept(making)
    (keeper,) = plan.keep
    *_, last = batches_of(keeper.metadata_log)
    making.unended = [f"unended-{number}" for number in range(making.draw.randint(1, 3))]
    records: list[Message] = [BeginTransactionRecord(name="never ended")]
    records += [TopicRecord(name=name, topic_id=Uuid.random()) for name in making.unended]
    batch = encode_batch(
        [write_frame(record, 0) for record in records],
        timestamps=int(time.time() * 1000),
        base_offset=last.last_offset + 1,
        partition_leader_epoch=last.epoch,
    )
    with max(keeper.metadata_log.glob("*.log")).open("ab") as log:
        log.write(batch)
    making.tell(f"{len(records)} records of a transaction behind the log of {keeper.id}")
    return plan


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


def lost_voters_return_higher(making: Making) -> Plan:
    """As lost-voters-return; without the one that is kept, they led on in higher epochs."""
    making.start_with_topics(controllers=3)
    keeper = making.draw.choice(making.cluster.controllers)
    for node in [keeper, *making.cluster.brokers]:
        node.kill()
    others = [node for node in making.cluster.controllers if node is not keeper]
    for _ in range(making.draw.randint(2, 4)):
        leader = making.leader()
        leader.kill()
        leader.start()
        leader.wait_healthy()
    plan = making.keep([keeper])
    plan.returning = others
    logs = {node.id: list(batches_of(node.metadata_log))[-1] for node in [keeper, *others]}
    ends = [f"{id} {log.last_offset + 1} in epoch {log.epoch}" for id, log in logs.items()]
    making.tell(f"{keeper.id} was killed before the others; the logs end: {', '.join(ends)}")
    return plan


def lost_voters_return_before(making: Making) -> Plan:
    """All controllers were down; the other two run again when one is to be recovered: refused."""
    making.start_with_topics(controllers=3)
    keeper = making.draw.choice(making.cluster.controllers)
    plan = making.keep(making.cluster.controllers, keepers=[keeper])
    plan.live = [node for node in plan.given if node is not keeper]
    plan.expect = "in-use"
    return plan


def gridlock(making: Making) -> Plan:
    """Two voters; the leader removes itself, and stops before the other one knows."""
    making.start_with_topics(controllers=2)
    leader = making.leader()
    (other,) = making.followers()
    other.pause()
    remove_voter(leader, leader)
    making.tell(f"SIGSTOP {other.id}; {leader.id} appends {wait_voters(leader, [other.id])}")
    return making.keep([leader, other], keepers=[other])


def broker_only(making: Making) -> Plan:
    """All controllers are lost; there is a broker, and a controller that was just formatted."""
    making.start_with_topics(controllers=3)
    blank = making.cluster.add_node("controller", start=False)
    making.tell(f"format {blank.id} without voters")
    plan = making.keep([blank])
    plan.options = ["--endpoint"]
    return plan


def addresses_changed(making: Making) -> Plan:
    """All three controllers are there, and each has another port."""
    making.start_with_topics(controllers=3)
    plan = making.keep(making.cluster.controllers)
    plan.moved = True
    plan.options = ["--endpoint"]
    return plan


def static_to_dynamic(making: Making) -> Plan:
    """Of three static voters one is left, and the voters are to be in the log."""
    plan = static_kept(making)
    plan.options = ["--to-dynamic", "--endpoint"]
    return plan


def gridlock_withdrawn(making: Making) -> Plan:
    """As gridlock; the removal is taken back."""
    plan = gridlock(making)
    plan.keep = [node for node in making.cluster.controllers if node in plan.given]
    plan.options = ["--withdraw-voters"]
    return plan


def gridlock_forced(making: Making) -> Plan:
    """As gridlock, and the disk of the one that was not removed is lost."""
    plan = gridlock(making)
    (left,) = (node for node in making.cluster.controllers if node not in plan.keep)
    plan.given = [node for node in plan.given if node not in plan.keep]
    plan.keep = [left]
    return plan


def stale_voters(making: Making) -> Plan:
    """A controller is left that missed the removal of another; the brokers know."""
    making.start_with_topics(controllers=4)
    leader = making.leader()
    laggard, removed = making.draw.sample(making.followers(), 2)
    laggard.pause()
    remove_voter(leader, removed)
    ids = [node.id for node in making.cluster.controllers if node is not removed]
    making.tell(f"SIGSTOP {laggard.id}; {leader.id} appends {wait_voters(leader, ids)}")
    making.add_topics()
    making.settle(apart_from=laggard)
    return making.keep([laggard])


def loss_accepted(making: Making) -> Plan:
    """As graft, and what the keeper missed is let go."""
    laggard = _behind(making)
    plan = making.keep([laggard])
    plan.live = []  # The command says that these brokers have to be stopped.
    plan.options = ["--source", "--accept-loss"]
    return plan


def padded(making: Making) -> Plan:
    """As loss-accepted, at another port; of the brokers it is known only where their logs end."""
    laggard = _behind(making)
    plan = making.keep([laggard])
    plan.given, plan.live = [laggard], []
    # Brokers that pass over the voters look for the leader at the port that they know of it.
    plan.moved = True
    plan.options = ["--pad-to", "--endpoint"]
    return plan


def never_fetched(making: Making) -> Plan:
    """A voter is left that never fetched: its disk is as it was formatted. All else is let go."""
    making.start(controllers=3)
    making.settle()
    making.add_topics()
    plan = making.keep([making.draw.choice(making.followers())])
    (keeper,) = plan.keep
    for path in keeper.metadata_log.iterdir():
        if path.name not in FIRST_CHECKPOINT:
            path.unlink()
    making.tell(f"{keeper.id} has the checkpoint 0-0, and no log")
    plan.live = []
    plan.options = ["--source", "--accept-loss"]
    return plan


def majority_left(making: Making) -> Plan:
    """Two of three controllers are left, which elect by themselves: refused."""
    making.start_with_topics(controllers=3)
    left = making.draw.sample(making.cluster.controllers, 2)
    plan = making.keep(left, keepers=left[:1])
    plan.expect = "could-elect"
    return plan


def same_epoch(making: Making) -> Plan:
    """A broker has another batch of the same offset and epoch than the keeper: refused."""
    plan = leader_kept(making)
    (keeper,) = plan.keep
    broker = making.cluster.brokers[0]
    end = min(log_end(keeper), log_end(broker))
    common = [batch for batch in batches_of(broker.metadata_log) if batch.last_offset < end]
    batch = making.draw.choice([batch for batch in common if not batch.is_control])
    data = bytearray(batch.data)
    for at in _TIMES:
        data[at] ^= 1
    data[_CRC : _CRC + 4] = crc32c(bytes(data[_CRC + 4 :])).to_bytes(4, "big")
    segment = max(broker.metadata_log.glob("*.log"))
    log = segment.read_bytes()
    segment.write_bytes(log.replace(batch.data, bytes(data)))
    making.tell(f"another time in the batch at offset {batch.base_offset} of {broker.id}")
    plan.live = []
    plan.expect = "same-epoch-two-contents"
    return plan


KINDS: dict[str, Kind] = {
    kind.__name__.replace("_", "-"): kind
    for kind in (
        leader_kept, follower_kept, graft, killed, checkpoint_between, two_of_five, static_kept,
        torn_tail, open_transaction,
        lost_voters_return, lost_voters_return_higher, lost_voters_return_before,
        gridlock, gridlock_withdrawn, gridlock_forced, broker_only, addresses_changed,
        static_to_dynamic, blanks_first, stale_voters, loss_accepted, padded, never_fetched,
        majority_left, same_epoch, blanks_given,
    )
}  # fmt: skip
