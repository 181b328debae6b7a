"""``kraftspec quorum`` with ``--profile``: the tools that the drafts name, and leave to be written.

KIP-595: describe, describe --replication, and alter, which gives the quorum its target voters.
KIP-853: describe, add-voter, remove-voter, and in what is described all that these two need. The
voters of KIP-996 never change, so describe is all that there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.output import emit_json, json_option, printable
from kraftspec.cli.profiles import profile_option
from kraftspec.cli.quorum_options import (
    client_config,
    connection_options,
    endpoint_text,
    given_options,
)

if TYPE_CHECKING:
    from kraftspec.fastpath.types import Uuid
    from kraftspec.reference.admin import Endpoint
    from kraftspec.reference.admin.drafts import DraftQuorum, DraftReplica

COLUMNS = 80
_LABEL_CHARS = 24  # As Kafka's own tool pads what it says.


@contextmanager
def _admin(context: click.Context, own: dict[str, Any], profile: str) -> Iterator[Any]:
    """Make the client; what it refuses is a line on stderr and exit code 1."""
    given = given_options(context, own)
    servers = given["bootstrap_server"] or given["bootstrap_controller"]
    if servers is None:
        raise click.UsageError("give --bootstrap-server HOST:PORT,…: some of the nodes")
    if given["bootstrap_server"] and given["bootstrap_controller"]:
        raise click.UsageError("--bootstrap-server and --bootstrap-controller are the same here")
    from kraftspec.reference.admin import AdminError
    from kraftspec.reference.admin.drafts import ADMINS

    try:
        admin = ADMINS[profile](
            servers,
            config=client_config(given["command_config"], given["timeout_s"]),
            on_retry=lambda why: click.echo(f"{printable(why)}; trying on ...", err=True),
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from error
    try:
        with admin:
            yield admin
    except AdminError as error:
        raise click.ClickException(printable(str(error))) from error


# ---- describe ----------------------------------------------------------------------------------


def describe_draft(
    context: click.Context, own: dict[str, Any], profile: str, *, replication: bool, as_json: bool
) -> None:
    """Describe a quorum of a draft: ``--replication``, or the state of it as a whole."""
    with _admin(context, own, profile) as admin:
        found = admin.describe_quorum()
        text = describe_text(profile, found, replication=replication)
        rows = _rows(profile, found)
        state = {"replicas": rows} if replication else _state(found)
        members = {} if replication else _members(profile, found, rows)
    if as_json:
        emit_json(state | members)
    else:
        click.echo(text)


def describe_text(profile: str, found: DraftQuorum, *, replication: bool = False) -> str:
    """Return a quorum for people: within 80 columns, whatever hosts are called."""
    rows = _rows(profile, found)
    if replication:
        return _replication_text(profile, rows)
    lines = [_line(key, value) for key, value in _state(found).items()]
    if profile != "kip-595":
        return "\n".join([*lines, "", _members_text(profile, rows)])
    members = _members(profile, found, rows)
    lines += [_line(key, _listed(members[key])) for key in ("currentVoters", "targetVoters")]
    return "\n".join(lines)


def _line(key: str, value: Any) -> str:
    label = f"{key[0].upper()}{key[1:]}:"
    return f"{label:{_LABEL_CHARS}}{printable(str(value))}"


def _listed(ids: Sequence[int] | None) -> str:
    return "[]" if not ids else f"[{','.join(map(str, ids))}]"


def _state(found: DraftQuorum) -> dict[str, Any]:
    return {
        "leaderId": found.leader_id,
        "leaderEpoch": found.leader_epoch,
        "highWatermark": found.high_watermark,
        "maxFollowerLag": found.max_follower_lag,
        "maxFollowerLagTimeMs": found.max_follower_lag_ms,
    }


def _members(profile: str, found: DraftQuorum, rows: list[dict[str, Any]]) -> dict[str, Any]:
    if profile == "kip-595":
        target = found.target_voters
        return {
            "currentVoters": sorted(voter.id for voter in found.voters),
            "targetVoters": None if target is None else sorted(target),
        }
    named = ("replicaId", "replicaUuid", "endpoints", "status", "shouldBecomeVoter")
    return {"replicas": [{key: row[key] for key in named if key in row} for row in rows]}


def _replicas(found: DraftQuorum) -> Iterator[tuple[DraftReplica, str]]:
    for voter in sorted(found.voters, key=lambda one: (one.id != found.leader_id, one.id)):
        yield voter, "Leader" if voter.id == found.leader_id else "Follower"
    for observer in found.observers:
        leads = observer.id == found.leader_id
        yield observer, "Leader" if leads else "Observer"


def _rows(profile: str, found: DraftQuorum) -> list[dict[str, Any]]:
    return [_row(profile, found, *one) for one in _replicas(found)]


def _row(profile: str, found: DraftQuorum, replica: DraftReplica, status: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "replicaId": replica.id,
        "logEndOffset": replica.log_end_offset,
        "lag": found.lag(replica),
        "lagTimeMs": found.lag_ms(replica),
        "status": status,
    }
    if profile == "kip-595":
        row["isReassignTarget"] = replica.id in (found.target_voters or ())
    if any(replica.uuid):
        row["replicaUuid"] = str(replica.uuid)
        row["shouldBecomeVoter"] = replica.should_become_voter
        row["endpoints"] = [endpoint_text(one) for one in replica.endpoints]
    return row


def _replication_text(profile: str, rows: list[dict[str, Any]]) -> str:
    heads = ["ReplicaId", "LogEndOffset", "Lag", "LagTimeMs", "Status"]
    keys = ["replicaId", "logEndOffset", "lag", "lagTimeMs", "status"]
    if profile == "kip-595":
        heads, keys = [*heads, "IsReassignTarget"], [*keys, "isReassignTarget"]
    if profile == "kip-853":
        heads.insert(1, "ReplicaUuid")
        keys.insert(1, "replicaUuid")
    cells = [[_cell(row.get(key, "-")) for key in keys] for row in rows]
    return _columns([heads, *cells])


def _members_text(profile: str, rows: list[dict[str, Any]]) -> str:
    if profile == "kip-996":
        return _columns(
            [["ReplicaId", "Status"], *([_cell(row["replicaId"]), row["status"]] for row in rows)]
        )
    lines = [["Id", "Uuid", "Status", "CanBeAdded", "Endpoints"]]
    for row in rows:
        is_observer = row["status"] == "Observer"
        lines.append(
            [
                _cell(row["replicaId"]),
                row.get("replicaUuid", "-"),
                row["status"],
                _cell(row.get("shouldBecomeVoter", False)) if is_observer else "-",
                ",".join(row.get("endpoints", ())) or "-",
            ]
        )
    text = _columns(lines)
    if max(map(len, text.splitlines())) <= COLUMNS:
        return text
    # Long names of hosts stand below, each on a line of its own.
    head, *narrow = _columns([line[:-1] for line in lines]).splitlines()
    below = [head]
    for row, line in zip(rows, narrow, strict=True):
        below += [line, *(f"    {printable(at)}" for at in row.get("endpoints", ()))]
    return "\n".join(below)


def _cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else printable(str(value))


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


# ---- KIP-595: alter ----------------------------------------------------------------------------


class _Ids(click.ParamType):  # type: ignore[type-arg] # Generic for checkers alone.
    name = "ids"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(word.isascii() and word.isdigit() and int(word) < 1 << 31 for word in words):
            self.fail(f"{value!r} is no list of ids; write 1,2,3", param, ctx)
        return tuple(sorted({int(word) for word in words}))


@click.command()
@profile_option("kip-595", default="kip-595", text="KIP-595 alone has it.")
@click.option(
    "--voters", required=True, type=_Ids(), metavar="ID,ID,…", help="The voters that are wished."
)
@click.option("--wait", is_flag=True, help="Until they are the voters, not only the target.")
@connection_options
@json_option
@click.pass_context
def alter(
    context: click.Context,
    /,
    profile: str,
    voters: tuple[int, ...],
    wait: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Give a quorum of KIP-595 its target voters (AlterQuorum).

    It is done once the target is committed; the leader then moves towards it, voter by voter.
    """
    with _admin(context, given, profile) as admin:
        admin.alter_quorum(voters, wait=wait)
    if as_json:
        emit_json({"action": "alter", "targetVoters": list(voters), "isReached": wait})
        return
    done = "The voters are" if wait else "The target voters are"
    click.echo(f"{done} {', '.join(map(str, voters))}")


# ---- KIP-853: add-voter, remove-voter ----------------------------------------------------------


def _uuid(context: click.Context, parameter: click.Parameter, value: str | None) -> Uuid | None:
    from kraftspec.fastpath.types import Uuid

    if value is None:
        return None
    try:
        return Uuid.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=context, param=parameter) from error


def _endpoints(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[Endpoint, ...]:
    from kraftspec.reference.admin.joiner import parse_endpoint

    try:
        return tuple(parse_endpoint("--endpoint", value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=context, param=parameter) from error


_voter_id = click.option(
    "-i", "--voter-id", type=click.IntRange(0, (1 << 31) - 1), metavar="ID", help="Its id."
)
_voter_uuid = click.option(
    "-u",
    "--voter-uuid",
    callback=_uuid,
    metavar="UUID",
    help="Its uuid.  [default: the only one that the quorum knows of that id]",
)


@click.command("add-voter")
@profile_option("kip-853", default="kip-853", text="KIP-853 alone has it.")
@_voter_id
@_voter_uuid
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    callback=_endpoints,
    metavar="NAME://HOST:PORT",
    help="Where it is reached; none of a static voter. Repeatable.",
)
@click.option(
    "-c",
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its properties, from which come id, uuid and endpoints.",
)
@connection_options
@json_option
@click.pass_context
def add_voter(
    context: click.Context,
    /,
    profile: str,
    voter_id: int | None,
    voter_uuid: Uuid | None,
    endpoints: tuple[Endpoint, ...],
    config: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Make a replica that has caught up a voter of a quorum of KIP-853 (AddVoter)."""
    if config is not None:
        if voter_id is not None or voter_uuid is not None or endpoints:
            raise click.UsageError("--config has id, uuid and endpoints: leave them out")
        voter_id, voter_uuid, endpoints = _joiner(config, profile)
    if voter_id is None:
        raise click.UsageError("say which: --voter-id ID, or --config FILE")
    with _admin(context, given, profile) as admin:
        if voter_uuid is None:
            found = admin.describe_quorum()
            among = [one for one in found.observers if one.id == voter_id] or [
                one for one in found.voters if one.id == voter_id
            ]
            voter_uuid = _only_uuid(voter_id, among)
        admin.add_voter(voter_id, voter_uuid, endpoints)
    _tell("add", "Added", voter_id, voter_uuid, as_json=as_json)


@click.command("remove-voter")
@profile_option("kip-853", default="kip-853", text="KIP-853 alone has it.")
@_voter_id
@_voter_uuid
@connection_options
@json_option
@click.pass_context
def remove_voter(
    context: click.Context,
    /,
    profile: str,
    voter_id: int | None,
    voter_uuid: Uuid | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Take a voter out of a quorum of KIP-853 (RemoveVoter)."""
    if voter_id is None:
        raise click.UsageError("say which: --voter-id ID")
    with _admin(context, given, profile) as admin:
        if voter_uuid is None:
            voters = admin.describe_quorum().voters
            voter_uuid = _only_uuid(voter_id, [one for one in voters if one.id == voter_id])
        admin.remove_voter(voter_id, voter_uuid)
    _tell("remove", "Removed", voter_id, voter_uuid, as_json=as_json)


def _joiner(config: Path, profile: str) -> tuple[int, Uuid, tuple[Endpoint, ...]]:
    """Return who a node is by its own files."""
    from kraftspec.reference.admin.joiner import draft_joiner_of

    try:
        found = draft_joiner_of(config, profile)
    except (OSError, ValueError) as error:
        raise click.ClickException(printable(f"{config}: {error}")) from error
    return found.node_id, found.directory_id, found.endpoints


def _only_uuid(voter_id: int, among: Sequence[DraftReplica]) -> Uuid:
    uuids = sorted({one.uuid for one in among})
    if len(uuids) != 1:
        what = "no replica" if not uuids else f"{len(uuids)} replicas"
        raise click.ClickException(
            f"the leader knows {what} of id {voter_id}: give --voter-uuid, as describe has it"
        )
    return uuids[0]


def _tell(action: str, done: str, voter_id: int, uuid: Uuid, *, as_json: bool) -> None:
    if as_json:
        emit_json({"action": action, "voterId": voter_id, "voterUuid": str(uuid)})
    else:
        click.echo(f"{done} voter {voter_id} with uuid {uuid}")
