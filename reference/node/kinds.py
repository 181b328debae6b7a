"""What a node is beside the protocol that its core speaks: what it owes a quorum, and serves in it.

A node of the profile ``kafka`` may be one of a quorum of Apache Kafka's own controllers. It
registers with them, lets them lead, answers what their tools and brokers send to any controller,
and has the id of its log directory in meta.properties. The drafts know none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftspec.generated import kafka, kip_595, kip_853, kip_996
from kraftspec.reference.node import gauges
from kraftspec.reference.node.apis import SHELL_APIS, ShellApi

if TYPE_CHECKING:
    from kraftspec.reference.node.gauges import Gauge
    from kraftspec.reference.raft import Core
    from kraftspec.reference.raft.messages import Reply
    from kraftspec.reference.raft.profile import Profile


class NodeKind(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside a profile.

    ``messages`` is the package of its generated messages. ``shell_apis`` are those that the core
    has no part in, by key. ``registers``: it tells an active controller of Kafka's that it exists.
    ``hands_back``: whether to resign once it leads; None where that depends on who the others are.
    ``writes_snapshots``: its log is Kafka's metadata, of which it can write an image.
    ``names_directory``: a directory that has no id gets one, in meta.properties.
    ``addresses_in_log``: a voter set says where its voters are. ``servers`` is the property with
    the addresses to begin with, ``id_word`` what its documents call a replica's second id.
    ``gauges`` are metrics beside Kafka's, or in the place of one of these. ``odd_reply`` says what
    is odd of what a node at some address answered, if anything is.
    """

    messages: Any
    shell_apis: Mapping[int, ShellApi] = {}
    registers: bool = False
    hands_back: bool | None = False
    writes_snapshots: bool = False
    names_directory: bool = False
    addresses_in_log: bool = True
    servers: str = "controller.quorum.bootstrap.servers"
    id_word: str = "uuid"
    gauges: Callable[[Core], Iterable[Gauge]] = lambda core: ()
    odd_reply: Callable[[Core, Reply, str], str] = lambda core, reply, peer: ""


def _other_first_voters(core: Core, reply: Reply, peer: str) -> str:
    """Return what to mend where a first election waits, as others were told of other voters."""
    from kraftspec.reference.profiles.kip_595.discovery import (  # noqa: PLC0415 - its nodes' alone
        is_first,
    )
    from kraftspec.reference.profiles.kip_595.messages import (  # noqa: PLC0415 - the same
        FindQuorumReply,
    )

    if not isinstance(reply, FindQuorumReply) or not core.is_voter or not is_first(core):
        return ""
    own_ids = core.log.voters.last.ids
    their_ids = tuple(voter.voter_id for voter in reply.voters)
    if reply.leader_id >= 0 or their_ids in ((), own_ids):
        return ""
    theirs, own = (",".join(map(str, ids)) for ids in (their_ids, own_ids))
    return (
        f"the node at {peer} expects the first voters {theirs}, and this one {own}: nobody is "
        f"elected before quorum.voters is the same on both"
    )


KINDS: Final = {
    "kafka": NodeKind(
        messages=kafka,
        shell_apis=SHELL_APIS,
        registers=True,
        hands_back=None,
        writes_snapshots=True,
        names_directory=True,
        id_word="directory",
    ),
    "kip-595": NodeKind(
        messages=kip_595,
        addresses_in_log=False,
        servers="bootstrap.servers",
        gauges=gauges.of_kip_595,
        odd_reply=_other_first_voters,
    ),
    "kip-853": NodeKind(messages=kip_853, gauges=gauges.of_kip_853),
    "kip-996": NodeKind(messages=kip_996, servers="controller.quorum.voters"),
}


def kind_of(profile: Profile) -> NodeKind:
    """Return what stands beside a profile; LookupError for one that nobody runs as a node."""
    try:
        return KINDS[profile.name]
    except KeyError:
        raise LookupError(f"no node runs the profile {profile.name}") from None
