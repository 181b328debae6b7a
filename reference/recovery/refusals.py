"""Why a quorum is not recovered, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kraftspec.reference.recovery.judgement import Judgement

# The way on, by the code of a verdict that stands against any recovery.
_VERDICTS: Final = {
    "cluster-ids-differ": "Give directories of one cluster only.",
    "same-directory-twice": "Give each node's directory once.",
    "two-directories-of-a-node": "Give the one that the node started with last.",
    "damaged-log": "Leave this directory out and keep another node; kraftspec dump-log shows what "
    "can be read of it.",
    "vote-unreadable": "Restore quorum-state from a copy, or leave this directory out.",
    "epochs-used-up": "Nobody can be elected behind the last epoch. Leave out the directory with "
    "the forged epoch, if it is not that of a node to keep; or leave out --epoch-bump.",
    "checkpoint-damaged": "Take the checkpoint away if an earlier one, or the log, has what it "
    "covers; else leave this directory out.",
    "checkpoint-differs": "Leave this directory out: its checkpoint and its log are of different "
    "histories.",
    "two-leaders": "Find out which branch clients were answered from, and give only the "
    "directories that have it.",
    "same-epoch-two-contents": "One of them was edited; or controllers were formatted anew, and "
    "led by themselves in an epoch that was there before. Leave out what was edited, or is new.",
    "two-committed-branches": "Clients were told of both. Choose one, and give only the "
    "directories that have it: what the other branch alone has is lost.",
    "unreadable": "Name log directories (metadata.log.dir) of Apache Kafka that this user can "
    "read.",
}  # fmt: skip
# The way on, by the code of any refusal.
WAYS_ON: Final = _VERDICTS | {
    "running": "Stop the node that writes. A broker that found no leader may run.",
    "in-use": "Stop it. Only brokers, and other nodes that do not vote, may run meanwhile.",
    "not-given": "Give its directory, too.",
    "no-voters-known": "Give the directory of a controller that has voted or led.",
    "not-a-voter": "Keep a voter whose directory is left, and add this node afterwards "
    "(add-controller). Only if no voter's directory is left can another controller be kept: one "
    "that voted before, or one that was just formatted, which takes over the log of a broker.",
    "directory-id-differs": "As an observer this node never leads. Give the directory that it "
    "voted with, or keep another voter and add this node afterwards (add-controller).",
    "no-address": "If it is a controller, say it: --endpoint ID=LISTENER://HOST:PORT, the name in "
    "controller.listener.names.",
    "no-directory-id": "Start the node once with Apache Kafka 3.7 or later, which writes it; or "
    "recover without --to-dynamic.",
    "is-dynamic": "Leave out --to-dynamic: the voters are in the log already.",
    "no-padding": "Leave out --pad-to, or give the directory of the node whose log is longer.",
    "withdraw-nothing": "Leave out --withdraw-voters.",
    "withdraw-not-given": "Give them. If one is lost for good, recover without --withdraw-voters.",
    "withdraw-committed": "Leave out --withdraw-voters: the nodes that lack the change get it.",
    "withdraw-not-kept": "Keep all nodes that have the change, and a majority of the voters before "
    "it; or recover without --withdraw-voters.",
    "could-elect": "Start the controllers, all of them, and let them elect. If they do not find "
    "each other, look at their addresses and at their clocks; a quorum that can elect is not "
    "recovered by force.",
    "checkpoint-beyond": "A checkpoint is committed. Keep the log that it was made of: --source "
    "DIR of that node.",
    "gap": "Give a directory that has the records between, or keep the shorter log: --source DIR "
    "of the node to keep, with --accept-loss.",
    "loss": "Look at the records, with kraftspec dump-log. If they may go: --accept-loss. If "
    "they are the ones to keep: --source DIR of that node.",
}  # fmt: skip


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A reason, and the way on."""

    code: str
    text: str

    @property
    def way_on(self) -> str:
        """What to do instead."""
        return WAYS_ON[self.code]


def refusal(code: str, text: str) -> Refusal:
    """Return a refusal of a code that is known."""
    assert code in WAYS_ON, code
    return Refusal(code=code, text=text)


def refused_directories(judgement: Judgement) -> Iterator[Refusal]:
    """Yield what of the judgement forbids to touch any of these directories."""
    for verdict in judgement.verdicts:
        if verdict.code in _VERDICTS:
            yield refusal(verdict.code, verdict.text)
    if not judgement.is_still:
        yield refusal("running", "a node wrote to its directory while it was read")
