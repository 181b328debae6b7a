"""Log directories of the profiles: formatted, described, and never opened as one another's."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.reference.node.quorum import WAIT_S, run

from kraftspec.cli import main
from kraftspec.cli.profiles import PROFILES
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.batch_reader import decode_batch, read_header
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kip_853 import AddVoterRecord
from kraftspec.reference.local.quorum import HOST, is_leading
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.directory import META_NAME, METADATA_NAME, NotFormattedError
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.startup import make_node
from kraftspec.reference.profiles import profile_named
from kraftspec.reference.storage import Storage

CLUSTER_ID = "ZHJhZnRzLW9mLXRlc3RzLQ"
PORT = 20_600


def properties(home: Path, profile: str, port: int = PORT, *, is_dynamic: bool = True) -> Path:
    """Write the file of a node that is the only voter; all profiles share the log directory."""
    home.mkdir(exist_ok=True)
    at = f"{HOST}:{port}"
    common = {"log.dirs": str(home / "log")}
    if profile == "kip-595":
        own = {"broker.id": "1", "listeners": f"PLAINTEXT://{at}", "quorum.voters": "1"}
    else:
        own = {
            "process.roles": "controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{at}",
        }
        static = profile == "kip-996" or not is_dynamic
        key, value = ("voters", f"1@{at}") if static else ("bootstrap.servers", at)
        own[f"controller.quorum.{key}"] = value
    path = home / f"{profile}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in (own | common).items()))
    return path


def storage(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["storage", *map(str, arguments)])


def formatted(path: Path, profile: str, *more: str) -> Result:
    """Format as an operator of that profile does."""
    arguments: list[str | Path] = ["format", "--profile", profile, "-c", path, *more]
    if profile != "kip-595":
        arguments += ["-t", CLUSTER_ID]
    if profile in ("kafka", "kip-853") and "voters" not in path.read_text():
        arguments += ["--standalone"]
    return storage(*arguments)


@pytest.mark.parametrize(("owner", "other"), list(itertools.permutations(PROFILES, 2)))
def test_a_directory_never_opens_as_another_profiles(
    tmp_path: Path, owner: str, other: str
) -> None:
    mine = properties(tmp_path, owner)
    done = formatted(mine, owner)
    assert done.exit_code == 0, done.output
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    theirs = properties(tmp_path, other)
    config = load_config(theirs, other)
    with pytest.raises(NotFormattedError) as refused:
        Storage.open(config.log_dir, profile_named(other), config.core)
    refusal = f"belongs to the profile {owner}, and was opened as {other}"
    assert refusal in str(refused.value)
    started = CliRunner().invoke(main, ["node", "--profile", other, "-c", str(theirs)])
    assert (started.exit_code, refusal in started.output) == (1, True), started.output
    again = formatted(theirs, other)  # Nor is it made another's.
    assert again.exit_code == 1
    kafkas = "No available log directories to format."
    assert (kafkas if other == "kafka" else f"belongs to the profile {owner}") in again.output
    after = {path: path.read_bytes() for path in before}
    assert after == before
    info = storage("info", "--profile", other, "-c", theirs)
    assert info.exit_code == 1
    assert owner in info.output


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_formatted_is_described_and_not_formatted_again(
    tmp_path: Path, profile: str
) -> None:
    path = properties(tmp_path, profile)
    missing = storage("info", "--profile", profile, "-c", path)
    assert (missing.exit_code, "does not exist" in missing.output) == (1, True)
    assert formatted(path, profile).exit_code == 0
    info = storage("info", "--profile", profile, "-c", path, "--json")
    assert info.exit_code == 0
    metadata = json.loads(info.stdout)["metadata"]
    assert metadata["version"] == ("1" if profile == "kafka" else profile)
    assert metadata.get("cluster.id") == (None if profile == "kip-595" else CLUSTER_ID)
    meta_path = tmp_path / "log" / META_NAME
    before = meta_path.read_bytes()
    again = formatted(path, profile)
    assert (again.exit_code, "formatted" in again.output) == (1, True)
    assert formatted(path, profile, "--ignore-formatted").exit_code == 0
    assert meta_path.read_bytes() == before


def test_the_first_voter_of_kip_853_stands_in_its_log(tmp_path: Path) -> None:
    path = properties(tmp_path, "kip-853", free_port(set()))
    report = json.loads(formatted(path, "kip-853", "--json").stdout)
    segment = tmp_path / "log" / METADATA_NAME / "00000000000000000000.log"
    data = segment.read_bytes()
    header = read_header(data, 0)
    assert (header.is_control, header.base_offset, header.end) == (True, 0, len(data))
    (record,) = decode_batch(data, 0)
    assert record.key == bytes([0, 0, 0, 100])  # Version 0, type 100.
    added = AddVoterRecord.decode(record.value or b"", 0)
    assert (added.voter_id, str(added.voter_uuid)) == (1, report["voterUuid"])
    (endpoint,) = added.end_points
    config = load_config(path, "kip-853")
    listener = config.listeners[0]
    assert (endpoint.name, endpoint.host, endpoint.port) == (
        listener.name,
        HOST,
        listener.port,
    )

    async def leads() -> None:
        async with make_node(config, "kip-853") as node:
            await node.until(is_leading, WAIT_S)
            assert node.core.config.directory_id == Uuid.parse(report["voterUuid"])
            assert node.core.log.voters.last.ids == (1,)

    run(leads())


@pytest.mark.parametrize("given", [(), ("-t", CLUSTER_ID)], ids=["new", "migrated"])
def test_the_cluster_id_of_kip_595_is_made_or_reused(
    tmp_path: Path, given: tuple[str, ...]
) -> None:
    path = properties(tmp_path, "kip-595", free_port(set()))
    assert formatted(path, "kip-595", *given).exit_code == 0
    meta_path = tmp_path / "log" / META_NAME

    def cached() -> str:
        return MetaProperties.parse(meta_path.read_bytes(), str(meta_path)).cluster_id

    assert cached() == (CLUSTER_ID if given else "")

    async def leads() -> None:
        async with make_node(load_config(path, "kip-595"), "kip-595") as node:
            await node.until(lambda it: it.core.high_watermark > 0, WAIT_S)
            async with asyncio.timeout(WAIT_S):
                while not cached():
                    await asyncio.sleep(0.01)

    run(leads())
    assert Uuid.parse(cached())
    assert not given or cached() == CLUSTER_ID


def test_a_broker_id_that_differs_does_not_start(tmp_path: Path) -> None:
    path = properties(tmp_path, "kip-595")
    assert formatted(path, "kip-595").exit_code == 0
    path.write_text(path.read_text().replace("broker.id=1", "broker.id=2"))
    done = CliRunner().invoke(main, ["node", "--profile", "kip-595", "-c", str(path)])
    assert done.exit_code == 1
    assert "is that of node 1, and this is node 2" in done.output


@pytest.mark.parametrize(
    ("profile", "more", "told"),
    [
        ("kip-853", (), "needs --cluster-id"),
        ("kip-853", ("-t", "x", "-s"), "leave --standalone"),
        ("kip-996", ("-t", "x", "-s"), "kip-996 has no --standalone"),
        ("kip-595", ("-N",), "kip-595 has no --standalone and no --no-initial-controllers"),
        ("kip-853", ("-t", "x", "-r", "4.0"), "--release-version/-r: not allowed with"),
    ],
)
def test_what_format_refuses(
    tmp_path: Path, profile: str, more: tuple[str, ...], told: str
) -> None:
    path = properties(tmp_path, profile, is_dynamic=False)
    done = storage("format", "--profile", profile, "-c", path, *more)
    assert done.exit_code == 1
    assert told in done.output
    assert not (tmp_path / "log").exists()


def test_a_dynamic_quorum_of_kip_853_says_who_its_first_voter_is(tmp_path: Path) -> None:
    path = properties(tmp_path, "kip-853")
    done = storage("format", "--profile", "kip-853", "-c", path, "-t", CLUSTER_ID)
    assert (done.exit_code, "give --standalone" in done.output) == (1, True)
    joins = storage("format", "--profile", "kip-853", "-c", path, "-t", CLUSTER_ID, "-N")
    assert joins.exit_code == 0
    with LogDirectory.open(str(tmp_path / "log"), profile="kip-853") as directory:
        assert directory.quorum_state.read() is None  # Its uuid is made when it starts.
