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
    given_options,
    opened_client,
)

if TYPE_CHECKING:
    from kraftspec.fastpath.types import Uuid
    from kraftspec.reference.admin import Endpoint
    from kraftspec.reference.profiles.common.admin import (
        AdminPart,
        DraftAdminPart,
        DraftQuorum,
        DraftReplica,
    )

COLUMNS = 80
_LABEL_CHARS = 24  # As Kafka's own tool pads what it says.


@contextmanager
def _client(context: click.Context, own: dict[str, Any], part: AdminPart) -> Iterator[Any]:
    """Make the client; what it refuses is a line on stderr and exit code 1."""
    given = given_options(context, own)
    servers = given["bootstrap_server"] or given["bootstrap_controller"]
    if servers is None:
        raise click.UsageError("give --bootstrap-server HOST:PORT,…: some of the nodes")
    if given["bootstrap_server"] and given["bootstrap_controller"]:
        raise click.UsageError("--bootstrap-server and --bootstrap-controller are the same here")
    config = client_config(given["command_config"], given["timeout_s"])
    with opened_client(part.client, servers, "--bootstrap-server", config=config) as client:
        yield client


# ---- describe ----------------------------------------------------------------------------------


def describe_draft(
    context: click.Context,
    own: dict[str, Any],
    part: DraftAdminPart,
    *,
    replication: bool,
    as_json: bool,
) -> None:
    """Describe a quorum of a draft: ``--replication``, or the state of it as a whole."""
    with _client(context, own, part) as admin:
        quorum = admin.describe_quorum()
        text = describe_text(part, quorum, replication=replication)
        if replication:
            described = {"replicas": part.rows(quorum)}
        else:
            described = _state(quorum) | part.members(quorum)
    if as_json:
        emit_json(described)
    else:
        click.echo(text)


def describe_text(part: DraftAdminPart, quorum: DraftQuorum, *, replication: bool = False) -> str:
    """Return a quorum for people: within 80 columns, whatever hosts are called."""
    rows = part.rows(quorum)
    if replication:
        heads = [head for head, _ in part.replication_columns]
        cells = [[_cell(row.get(key, "-")) for _, key in part.replication_columns] for row in rows]
        return _columns([heads, *cells])
    lines = [_line(key, value) for key, value in _state(quorum).items()]
    if part.member_columns:
        return "\n".join([*lines, "", _members_text(part, rows)])
    lines += [_line(key, _listed(ids)) for key, ids in part.members(quorum).items()]
    return "\n".join(lines)


def _line(key: str, value: Any) -> str:
    label = f"{key[0].upper()}{key[1:]}:"
    return f"{label:{_LABEL_CHARS}}{printable(str(value))}"


def _listed(ids: Sequence[int] | None) -> str:
    return "[]" if not ids else f"[{','.join(map(str, ids))}]"


def _state(quorum: DraftQuorum) -> dict[str, Any]:
    return {
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "maxFollowerLag": quorum.max_follower_lag,
        "maxFollowerLagTimeMs": quorum.max_follower_lag_ms,
    }


def _members_text(part: DraftAdminPart, rows: list[dict[str, Any]]) -> str:
    lines = [[head for head, _ in part.member_columns]]
    lines += [[_cell(shown(row)) for _, shown in part.member_columns] for row in rows]
    text = _columns(lines)
    if max(map(len, text.splitlines())) <= COLUMNS:
        return text
    # Endpoints, which stand last, are long: each has a line of its own below.
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
@profile_option("kip-595", default="kip-595", text="Only KIP-595 has this command.")
@click.option("--voters", required=True, type=_Ids(), metavar="ID,ID,…", help="The new voters.")
@click.option("--wait", is_flag=True, help="Wait until they are the voters.")
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
    """Set the target voters of a KIP-595 quorum (AlterQuorum).

    The command returns once the target is committed; the leader then changes the voters one by one.
    """
    from kraftspec.reference.profiles import parts_of

    with _client(context, given, parts_of(profile).admin) as admin:
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
    from kraftspec.reference.admin.added_controller import parse_endpoint

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
@profile_option("kip-853", default="kip-853", text="Only KIP-853 has this command.")
@_voter_id
@_voter_uuid
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    callback=_endpoints,
    metavar="NAME://HOST:PORT",
    help="Its endpoint; static voters have none. Repeatable.",
)
@click.option(
    "-c",
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its properties file, with id, uuid and endpoints.",
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
    """Add a replica that has caught up as a voter of a KIP-853 quorum (AddVoter)."""
    from kraftspec.reference.profiles import parts_of

    if config is not None:
        if voter_id is not None or voter_uuid is not None or endpoints:
            raise click.UsageError("--config has id, uuid and endpoints: leave them out")
        voter_id, voter_uuid, endpoints = _joiner(config)
    if voter_id is None:
        raise click.UsageError("give --voter-id ID, or --config FILE")
    with _client(context, given, parts_of(profile).admin) as admin:
        if voter_uuid is None:
            quorum = admin.describe_quorum()
            voter_uuid = _uuid_of(voter_id, quorum.observers, quorum.voters)
        admin.add_voter(voter_id, voter_uuid, endpoints)
    _tell("add", "Added", voter_id, voter_uuid, as_json=as_json)


@click.command("remove-voter")
@profile_option("kip-853", default="kip-853", text="Only KIP-853 has this command.")
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
    """Remove a voter from a KIP-853 quorum (RemoveVoter)."""
    from kraftspec.reference.profiles import parts_of

    if voter_id is None:
        raise click.UsageError("give --voter-id ID")
    with _client(context, given, parts_of(profile).admin) as admin:
        if voter_uuid is None:
            voter_uuid = _uuid_of(voter_id, admin.describe_quorum().voters)
        admin.remove_voter(voter_id, voter_uuid)
    _tell("remove", "Removed", voter_id, voter_uuid, as_json=as_json)


def _joiner(config: Path) -> tuple[int, Uuid, tuple[Endpoint, ...]]:
    """Return who a node is by its own files."""
    from kraftspec.reference.profiles.kip_853.admin import draft_joiner_of

    try:
        joiner = draft_joiner_of(config)
    except (OSError, ValueError) as error:
        raise click.ClickException(printable(f"{config}: {error}")) from error
    return joiner.node_id, joiner.directory_id, joiner.endpoints


def _uuid_of(voter_id: int, *groups: Sequence[DraftReplica]) -> Uuid:
    """Return the uuid of an id in the first group that knows one."""
    for group in groups:
        uuids = sorted({one.uuid for one in group if one.id == voter_id and any(one.uuid)})
        if len(uuids) > 1:
            raise click.ClickException(
                f"the leader knows {len(uuids)} replicas of id {voter_id}: give --voter-uuid, as "
                f"describe has it"
            )
        if uuids:
            return uuids[0]
    raise click.ClickException(
        f"the leader knows no uuid of id {voter_id}: a controller fetches with one, a broker "
        f"without"
    )


def _tell(action: str, done: str, voter_id: int, uuid: Uuid, *, as_json: bool) -> None:
    if as_json:
        emit_json({"action": action, "voterId": voter_id, "voterUuid": str(uuid)})
    else:
        click.echo(f"{done} voter {voter_id} with uuid {uuid}")
