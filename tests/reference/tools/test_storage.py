"""Formatting without Kafka: whatever the arguments, nothing crashes and nothing is lost."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.kafka_tools import ours

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log import LogDirectory
from kraftspec.reference.metadata.features import effective_levels, release_level
from kraftspec.reference.raft.types import Endpoint, ReplicaKey
from kraftspec.reference.tools.scram import parse_scram
from kraftspec.reference.tools.storage import FormatRequest, format_storage, storage_info
from kraftspec.reference.tools.storage_config import StorageConfig
from kraftspec.reference.tools.voters import parse_voters

PROPERTIES = """\
process.roles=controller
node.id=1
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:9093
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs={}
"""
# Words that nearly are what the options take, and any text.
PIECES = st.sampled_from(
    ["1", "-1", "@", ":", "h", "[", "]", "::1", "9093", ",", "=", "[name=a,password=b]", '"', "4.3",
     "-IV0", "kraft.version", "metadata.version", "30", "SCRAM-SHA-256", "AAAAAAAAAAAAAAAAAAAAAQ",
     "٣", "\udc80"]
)  # fmt: skip
WORDS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=30)


def write(directory: Path) -> Path:
    path = directory / "node.properties"
    path.write_text(PROPERTIES.format(directory / "data"), "utf-8")
    return path


def config_of(directory: Path) -> StorageConfig:
    path = str(directory / "data")
    return StorageConfig(
        node_id=1, log_dirs=(path,), metadata_dir=path, is_controller=True, has_static_voters=False,
        listener_name="CONTROLLER", listener=Endpoint("CONTROLLER", "h", 9093),
    )  # fmt: skip


@given(
    cluster_id=WORDS,
    initial=st.none() | WORDS,
    release=st.none() | WORDS,
    features=st.lists(WORDS, max_size=2),
    scram=st.lists(WORDS, max_size=2),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_any_request(
    cluster_id: str,
    initial: str | None,
    release: str | None,
    features: list[str],
    scram: list[str],
    flags: tuple[bool, bool, bool],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """It formats a directory that opens, or refuses in words and makes nothing."""
    directory = tmp_path_factory.mktemp("any")
    request = FormatRequest(
        cluster_id=cluster_id, initial_controllers=initial, release_version=release,
        features=tuple(features), scram=tuple(scram), standalone=flags[0],
        no_initial_controllers=flags[1], ignore_formatted=flags[2],
    )  # fmt: skip
    try:
        report = format_storage(config_of(directory), request)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert list(directory.iterdir()) == []
        return
    with LogDirectory.open(report.directories[0].path, node_id=1) as opened:
        assert opened.meta.cluster_id == cluster_id
        assert opened.meta.directory_id == report.directories[0].directory_id
    assert storage_info([report.directories[0].path]).problems == ()


@given(arguments=st.lists(st.sampled_from(
    ["format", "info", "random-uuid", "version-mapping", "feature-dependencies", "-c", "-t", "-s",
     "-N", "-I", "-g", "-r", "-f", "-S", "--json", "{config}", "{missing}", "4.3", "x"]
) | WORDS, max_size=7))  # fmt: skip
def test_any_arguments(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("any")
    names = {"{config}": str(write(directory)), "{missing}": str(directory / "none")}
    given = [names.get(each, each) for each in arguments]
    if any("\0" in each or not each.isprintable() for each in given):
        return  # No shell gives these.
    done = ours("storage", *given)  # Which raises what crashes.
    assert done.code in (0, 1)
    assert done.out or done.err


@given(text=WORDS)
def test_any_voters(text: str) -> None:
    with contextlib.suppress(ValueError):
        ids = [voter.key.id for voter in parse_voters(text, "CONTROLLER")]
        assert ids == sorted(set(ids))


@given(text=WORDS, level=st.integers(0, 40), given_level=st.integers(-5, 9))
def test_any_feature(text: str, level: int, given_level: int) -> None:
    for call in (
        lambda: release_level(text, allow_unstable=True),
        lambda: effective_levels(level, {text: given_level}),
        lambda: effective_levels(level, {"group.version": given_level}),
        lambda: parse_scram(text),
    ):
        with contextlib.suppress(ValueError):  # FeatureError is one.
            call()


def test_voters_are_read() -> None:
    directory = Uuid.random()
    (voter,) = parse_voters(f" 7@[2001:DB8::1]:9093:{directory},", "CTL")
    assert voter.key == ReplicaKey(7, directory)
    assert voter.endpoints == (Endpoint("CTL", "2001:db8:0:0:0:0:0:1", 9093),)
    assert (voter.kraft_versions.min, voter.kraft_versions.max) == (0, 1)


def test_scram_is_that_of_rfc_7677() -> None:
    """The example exchange of the RFC: user ``user``, password ``pencil``."""
    record = parse_scram(
        "SCRAM-SHA-256=[name=user,password=pencil,iterations=4096,salt=W22ZaJ0SNY7soEsUEjb6gQ==]"
    )
    # The server's signature of the example is HMAC(server key, auth message).
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(record.server_key, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_json(tmp_path: Path) -> None:
    config = str(write(tmp_path))
    done = ours("storage", "info", "-c", config, "--json")
    assert done.code == 1
    assert json.loads(done.out)["problems"] == [f"{tmp_path}/data does not exist"]
    done = ours("storage", "format", "-c", config, "-t", "C", "-s", "--json")
    report = json.loads(done.out)
    assert report["formatted"][0]["kind"] == "dynamic metadata voter directory"
    assert report["features"]["metadata.version"] == 33
    again = json.loads(ours("storage", "format", "-c", config, "-t", "C", "-s", "-g", "--json").out)
    assert (again["formatted"], again["alreadyFormatted"]) == ([], [f"{tmp_path}/data"])
    info = json.loads(ours("storage", "info", "-c", config, "--json").out)
    assert info["metadata"]["directory.id"] == report["formatted"][0]["directoryId"]
    assert len(json.loads(ours("storage", "random-uuid", "--json").out)["uuid"]) == 22
    mapping = json.loads(ours("storage", "version-mapping", "-r", "3.9", "--json").out)
    assert mapping["metadata.version"] == 21
    needs = ("-f", "eligible.leader.replicas.version=1")
    features = json.loads(ours("storage", "feature-dependencies", *needs, "--json").out)
    assert features[0]["requires"] == {"metadata.version": 23}


def test_random_uuids_differ_and_are_no_options() -> None:
    drawn = {ours("storage", "random-uuid").out.strip() for _ in range(50)}
    assert len(drawn) == 50
    for each in drawn:
        assert str(Uuid.parse(each)) == each
        assert not each.startswith("-")


def test_an_empty_cluster_id_is_refused(tmp_path: Path) -> None:
    """Kafka formats with it, and nothing can start on that."""
    done = ours("storage", "format", "-c", str(write(tmp_path)), "-t", "", "-s")
    assert done.code == 1
    assert "the cluster id is not taken: it is empty" in done.err
    assert not (tmp_path / "data").exists()


def test_a_file_that_is_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    for text, expected in (
        ("node.id=1\\u12", "line 1"),
        ("process.roles=controller,king\nnode.id=1\n", "king"),
        ("process.roles=controller\nnode.id=1\nnode.id=x\n", "node.properties:3: node.id"),
    ):
        path.write_text(text, "utf-8")
        done = ours("storage", "info", "-c", str(path))
        assert done.code == 1
        assert expected in done.err
        assert all(line.startswith("Error: ") for line in done.err.splitlines())


def test_all_mistakes_are_marked_alike(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("process.roles=controller\nnode.id=x\nlog.dirs=\n", "utf-8")
    done = ours("storage", "format", "-c", str(path), "-t", "cluster", "--standalone")
    lines = done.err.splitlines()
    assert (done.code, len(lines) > 2) == (1, True)
    assert all(line.startswith(f"Error: {path}") for line in lines), done.err


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("x", "utf-8")
    home = tmp_path / "home"
    home.mkdir()
    path = write(home)
    lines = path.read_text("utf-8").splitlines()
    lines = [f"log.dirs={in_the_way}/log" if "log.dirs" in line else line for line in lines]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    done = ours("storage", "format", "-c", str(path), "-t", "cluster", "--standalone")
    assert done.code == 1
    assert "[Errno" not in done.err + done.out
    assert f"{in_the_way}" in done.err + done.out
