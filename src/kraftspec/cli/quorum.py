"""``kraftspec quorum``: Apache Kafka's ``kafka-metadata-quorum``, and a quorum to try things on.

Words, options and output are those of Kafka's tool (``MetadataQuorumCommand`` 4.4.0). What differs:
``--json``, ``--timeout``, one line for an error where Kafka prints Java's trace, and exit code 2
for wrong usage. Only what an answer needs is imported: half of the time of such a command is that.
The tools of the drafts are in `quorum_drafts`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli import LazyGroup
from kraftspec.cli.output import emit_json, json_option, printable
from kraftspec.cli.profiles import profile_option
from kraftspec.cli.quorum_options import (
    client_config,
    connection_options,
    endpoint_text,
    given_options,
    opened_client,
)

if TYPE_CHECKING:
    from kraftspec.reference.admin import AdminClient, ClientConfig, QuorumInfo, Replica

_COMMANDS = {
    "add-controller": "kraftspec.cli.quorum:add_controller",
    "add-voter": "kraftspec.cli.quorum_drafts:add_voter",
    "alter": "kraftspec.cli.quorum_drafts:alter",
    "describe": "kraftspec.cli.quorum:describe",
    "recover": "kraftspec.cli.quorum_recover:recover",
    "remove-controller": "kraftspec.cli.quorum:remove_controller",
    "remove-voter": "kraftspec.cli.quorum_drafts:remove_voter",
    "up": "kraftspec.cli.quorum_up:up",
    "verify": "kraftspec.cli.quorum_verify:verify",
}
_DRY_RUN = "True if we should print what would be done, but not do it."


@click.command(cls=LazyGroup, homes=_COMMANDS)
@connection_options
@click.pass_context
def quorum(context: click.Context, /, **given: Any) -> None:
    """Describe and change a metadata quorum, as kafka-metadata-quorum does."""
    context.obj = given


@click.command()
@click.option("--status", is_flag=True, help="A short summary of the quorum.")
@click.option("--replication", is_flag=True, help="The lag of each replica.")
@click.option("--human-readable", is_flag=True, help="With --replication: times relative to now.")
@profile_option()
@connection_options
@json_option
@click.pass_context
def describe(
    context: click.Context,
    /,
    profile: str,
    status: bool,
    replication: bool,
    human_readable: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Describe the metadata quorum info."""
    if status and replication:
        raise click.UsageError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    from kraftspec.reference.profiles import parts_of
    from kraftspec.reference.profiles.common.admin import DraftAdminPart

    part = parts_of(profile).admin
    if isinstance(part, DraftAdminPart):
        from kraftspec.cli.quorum_drafts import describe_draft

        describe_draft(context, given, part, replication=replication, as_json=as_json)
        return
    if not status and not replication:
        raise click.UsageError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if status and human_readable:
        raise click.UsageError(
            "The option --human-readable is only supported along with --replication"
        )
    with _admin(context, given) as (admin, _):
        if replication:
            quorum = admin.describe_quorum()
            if as_json:
                emit_json({"replicas": [row for _, row in _rows(quorum)]})
            else:
                click.echo(_replication_text(quorum, is_human=human_readable))
            return
        cluster_id = admin.describe_cluster().cluster_id
        state = _status(cluster_id, admin.describe_quorum())
        if as_json:
            emit_json(state)
        else:
            click.echo(_status_text(state))


@click.command("add-controller")
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@connection_options
@json_option
@click.pass_context
def add_controller(context: click.Context, /, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Add a controller to the KRaft controller cluster.

    --command-config is the file of the controller that is added.
    """
    if not given_options(context, given)["command_config"]:
        raise click.UsageError(
            "You must supply the configuration file of the controller you are adding when using "
            "add-controller."
        )
    with _admin(context, given) as (admin, config):
        from kraftspec.reference.admin.added_controller import added_controller_of

        try:
            added = added_controller_of(config.properties)
        except ValueError as error:
            raise click.ClickException(printable(f"{config.path}: {error}")) from error
        if not dry_run:
            admin.add_voter(added.node_id, added.directory_id, added.endpoints)
    endpoints = [endpoint_text(one) for one in added.endpoints]
    if as_json:
        _emit_change("add", dry_run, added.node_id, str(added.directory_id), endpoints=endpoints)
        return
    done = "DRY RUN of adding" if dry_run else "Added"
    click.echo(
        f"{done} controller {added.node_id} with directory id {added.directory_id} and "
        f"endpoints: {', '.join(endpoints)}"
    )


@click.command("remove-controller")
@click.option(
    "--controller-id",
    "-i",
    type=int,
    required=True,
    metavar="ID",
    help="The id of the controller to remove.",
)
@click.option(
    "--controller-directory-id",
    "-d",
    "directory",
    required=True,
    metavar="DIRECTORY-ID",
    help="The directory ID of the controller to remove.",
)
@click.option(
    "--unregister", is_flag=True, help="It is gone for good: forget its registration, too (4.4)."
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@connection_options
@json_option
@click.pass_context
def remove_controller(
    context: click.Context,
    /,
    controller_id: int,
    directory: str,
    unregister: bool,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Remove a controller from the KRaft controller cluster."""
    from kraftspec.fastpath.types import Uuid

    if controller_id < 0:
        raise click.UsageError(f"Invalid negative --controller-id: {controller_id}")
    try:
        directory_id = Uuid.parse(directory)
    except ValueError as error:
        raise click.UsageError(f"Failed to parse --controller-directory-id: {error}") from error
    with _admin(context, given) as (admin, _):
        if not dry_run:
            admin.remove_voter(controller_id, directory_id)
        if not as_json:
            done = "DRY RUN of removing" if dry_run else "Removed"
            click.echo(f"{done} KRaft controller {controller_id} with directory id {directory_id}")
        if unregister and not dry_run:
            admin.unregister_controller(controller_id)
    if as_json:
        _emit_change("remove", dry_run, controller_id, str(directory_id), unregister=unregister)
    elif unregister:
        done = "DRY RUN of unregistering" if dry_run else "Unregistered"
        click.echo(f"{done} controller {controller_id}")


# ---- who is asked ------------------------------------------------------------------------------


@contextmanager
def _admin(
    context: click.Context, own: dict[str, Any]
) -> Iterator[tuple[AdminClient, ClientConfig]]:
    """Make the client; what it refuses is a line on stderr and exit code 1."""
    given = given_options(context, own)
    servers, controllers = given["bootstrap_server"], given["bootstrap_controller"]
    if servers is None and controllers is None:
        raise click.UsageError(
            "one of the arguments --bootstrap-server --bootstrap-controller is required"
        )
    if servers is not None and controllers is not None:
        raise click.UsageError(
            "argument --bootstrap-server: not allowed with argument --bootstrap-controller"
        )
    from kraftspec.reference.admin import AdminClient

    config = client_config(given["command_config"], given["timeout_s"])
    hint = "--bootstrap-server" if controllers is None else "--bootstrap-controller"
    to_controllers = controllers is not None
    with opened_client(
        AdminClient,
        servers or controllers or "",
        hint,
        config=config,
        to_controllers=to_controllers,
    ) as admin:
        yield admin, config


# ---- what is said ------------------------------------------------------------------------------


def _status(cluster_id: str, quorum: QuorumInfo) -> dict[str, Any]:
    return {
        "clusterId": cluster_id,
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "maxFollowerLag": quorum.max_follower_lag,
        "maxFollowerLagTimeMs": quorum.max_follower_lag_ms,
        "currentVoters": [_member(quorum, one) for one in quorum.voters],
        "currentObservers": [_member(quorum, one) for one in quorum.observers],
    }


def _member(quorum: QuorumInfo, replica: Replica) -> dict[str, Any]:
    """Return who a replica is; what nobody knows of it is left out."""
    member: dict[str, Any] = {"id": replica.id}
    if any(replica.directory_id):
        member["directoryId"] = str(replica.directory_id)
    endpoints = [endpoint_text(one) for one in quorum.endpoints.get(replica.id, ())]
    if endpoints:
        member["endpoints"] = endpoints
    return member


def _status_text(state: dict[str, Any]) -> str:
    import json

    lines = []
    for key, value in state.items():
        label = f"{key[0].upper()}{key[1:]}:"
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
        lines.append(f"{label:24}{printable(shown)}")
    return "\n".join(lines)


def _rows(quorum: QuorumInfo) -> Iterator[tuple[Replica, dict[str, Any]]]:
    """Yield each replica and its row: the leader, the other voters, the observers."""
    leader = quorum.leader
    others = [voter for voter in quorum.voters if voter.id != quorum.leader_id]
    for status, replicas in (
        ("Leader", [leader]),
        ("Follower", others),
        ("Observer", list(quorum.observers)),
    ):
        for one in replicas:
            yield (
                one,
                {
                    "nodeId": one.id,
                    "directoryId": str(one.directory_id),
                    "logEndOffset": one.log_end_offset,
                    "lag": leader.log_end_offset - one.log_end_offset,
                    "lastFetchTimestamp": one.last_fetch_ms,
                    "lastCaughtUpTimestamp": one.last_caught_up_ms,
                    "status": status,
                },
            )


def _replication_text(quorum: QuorumInfo, *, is_human: bool) -> str:
    heads = ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp"]
    heads += ["LastCaughtUpTimestamp", "Status"]
    now_ms = time.time_ns() // 1_000_000
    rows = []
    for replica, row in _rows(quorum):
        if is_human:
            row["lastFetchTimestamp"] = _ago(now_ms, replica.last_fetch_ms)
            row["lastCaughtUpTimestamp"] = _ago(now_ms, replica.last_caught_up_ms)
        rows.append([str(value) for value in row.values()])
    return _table([heads, *rows])


def _ago(now_ms: int, then_ms: int) -> str:
    """Return how long ago; a clock that is ahead of ours is said to be (Kafka's tool gives up)."""
    if then_ms < 0:
        return str(then_ms)
    if then_ms > now_ms:
        return f"in {then_ms - now_ms} ms"
    return f"{now_ms - then_ms} ms ago"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as Kafka's tools do: as wide as the widest cell, a tab after each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "".join(f"{cell:{width}}\t" for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def _emit_change(
    action: str,
    dry_run: bool,
    node_id: int,
    directory_id: str,
    **details: Any,
) -> None:
    report: dict[str, Any] = {"action": action, "dryRun": dry_run}
    emit_json(report | {"controllerId": node_id, "directoryId": directory_id} | details)
