"""Formatting and opening a log directory: whose it is, of which profile, and properties files."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import QuorumStateData, SnapshotHeaderRecord
from kraftspec.reference.log import LogDirectory, MetaProperties, NotFormattedError
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import (
    BOOTSTRAP_NAME,
    FIRST_CHECKPOINT,
    META_NAME,
    METADATA_NAME,
)
from kraftspec.reference.log.epochs import EpochEntry, EpochList
from kraftspec.reference.log.files import read_whole
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.properties import parse_properties, render_properties
from kraftspec.reference.log.quorum_state import render
from kraftspec.reference.log.snapshots import checkpoint_bytes

PATH = "/data"
ID = Uuid.parse("La_7VAAfZPCsvT9y72tLkA")
META = MetaProperties(cluster_id="YtGxSdNvQRG40ENstXFRtw", node_id=7, directory_id=ID)


def formatted(meta: MetaProperties = META) -> MemoryFiles:
    files = MemoryFiles()
    LogDirectory.format(PATH, meta, {"bootstrap.checkpoint": b"some bytes"}, files)
    return files


def test_a_directory_is_formatted_once() -> None:
    files = formatted()
    assert read_whole(files, f"{PATH}/{META_NAME}").decode() == (
        "version=1\ncluster.id=YtGxSdNvQRG40ENstXFRtw\nnode.id=7\n"
        "directory.id=La_7VAAfZPCsvT9y72tLkA\n"
    )
    assert read_whole(files, f"{PATH}/bootstrap.checkpoint") == b"some bytes"
    with pytest.raises(FileExistsError, match="is formatted already"):
        LogDirectory.format(PATH, META, files=files)
    with LogDirectory.open(PATH, files) as directory:
        assert directory.meta == META
        assert directory.quorum_state.read() is None
        with pytest.raises(BlockingIOError):
            LogDirectory.open(PATH, files)
        log = directory.open_log()
        log.append_records(0, [b"x"], 1)
        log.close()
    assert METADATA_NAME in files.names(PATH)


def checkpoint(*values: bytes) -> bytes:
    header = [control_value(SnapshotHeaderRecord())]
    return checkpoint_bytes(header, values, timestamp_ms=1)


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        ({}, []),
        ({BOOTSTRAP_NAME: checkpoint(b"old")}, [b"old"]),
        ({FIRST_CHECKPOINT: checkpoint(), BOOTSTRAP_NAME: checkpoint(b"old")}, [b"old"]),
        ({FIRST_CHECKPOINT: checkpoint(b"a", b"b")}, [b"a", b"b"]),
        ({FIRST_CHECKPOINT: checkpoint(b"new"), BOOTSTRAP_NAME: checkpoint(b"old")}, [b"new"]),
    ],
)
def test_the_first_records_are_where_a_release_formats_them(
    checkpoints: dict[str, bytes], expected: list[bytes]
) -> None:
    """Those of 4.4 come first, as in its ``QuorumController.handleLoadBootstrap``."""
    files = MemoryFiles()
    LogDirectory.format(PATH, META, checkpoints, files)
    with LogDirectory.open(PATH, files) as directory:
        assert directory.bootstrap_values() == expected


@pytest.mark.parametrize("operation", range(1, 40))
def test_formatting_that_ends_amid_is_whole_or_none(operation: int) -> None:
    for seed in range(5):
        files = MemoryFiles()
        left = [operation]

        def power(_: str, __: str, ___: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        files.hook = power
        is_done = False
        with suppress(KeyboardInterrupt):
            LogDirectory.format(PATH, META, {"bootstrap.checkpoint": b"bytes" * 200}, files)
            is_done = True
        files.hook = None
        files.power_loss(Random(seed))
        try:
            LogDirectory.open(PATH, files).close()
        except NotFormattedError:
            assert not is_done
            LogDirectory.format(PATH, META, {"bootstrap.checkpoint": b"bytes" * 200}, files)
        assert read_whole(files, f"{PATH}/bootstrap.checkpoint") == b"bytes" * 200
        with LogDirectory.open(PATH, files) as directory:
            assert directory.meta == META


def test_a_directory_that_is_not_formatted() -> None:
    files = MemoryFiles()
    with pytest.raises(NotFormattedError, match=r"is not formatted: .*kafka-storage format"):
        LogDirectory.open(PATH, files)
    files.make_directory(PATH)
    with pytest.raises(NotFormattedError, match="is not formatted"):
        LogDirectory.open(PATH, files)
    assert files.locks == set()


PROFILES = ("kafka", "kip-595", "kip-853", "kip-996")


@pytest.mark.parametrize("owner", PROFILES)
@pytest.mark.parametrize("opened", PROFILES)
def test_profiles_do_not_open_one_another(owner: str, opened: str) -> None:
    files = formatted(MetaProperties(profile=owner, cluster_id="c", node_id=1))
    if owner == opened:
        with LogDirectory.open(PATH, files, profile=opened) as directory:
            assert directory.meta.profile == owner
        return
    before = files.names(PATH)
    with pytest.raises(NotFormattedError, match=f"profile {owner}, and was opened as {opened}"):
        LogDirectory.open(PATH, files, profile=opened)
    assert files.names(PATH) == before
    assert files.locks == set()


def test_a_directory_of_another_node_or_cluster() -> None:
    files = formatted()
    with pytest.raises(NotFormattedError, match="is that of node 7, and this is node 8"):
        LogDirectory.open(PATH, files, node_id=8)
    with pytest.raises(NotFormattedError, match=r"is of the cluster YtGx.*, and not of other"):
        LogDirectory.open(PATH, files, cluster_id="other")
    LogDirectory.open(PATH, files, node_id=7, cluster_id=META.cluster_id).close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "version 0 is that of a ZooKeeper broker"),
        ("version=0\nbroker.id=1\n", "version 0 is that of a ZooKeeper broker"),
        ("version=2\n", "version 2, and 1 is known"),
        ("version=1\ncluster.id=c\n", "node.id is missing"),
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        ("version=1\nnode.id=one\ncluster.id=c\n", "node.id 'one' is no id"),
        ("version=1\nnode.id=99999999999\ncluster.id=c\n", "is no id"),
        ("version=1\nnode.id=1\ncluster.id=c\ndirectory.id=zz\n", "'zz'"),
        ("version=1\nnode.id=1\ncluster.id=\\u12\n", "line 3"),
    ],
)
def test_what_meta_properties_may_not_say(text: str, reason: str) -> None:
    files = formatted()
    file = files.open(f"{PATH}/{META_NAME}")
    file.truncate(0)
    file.write_at(0, text.encode())
    with pytest.raises(NotFormattedError, match=reason) as caught:
        LogDirectory.open(PATH, files)
    assert PATH in str(caught.value)
    assert files.locks == set()


def test_what_is_not_ours_in_meta_properties_stays() -> None:
    files = formatted()
    file = files.open(f"{PATH}/{META_NAME}")
    file.write_at(file.size(), b"later.key=a value\n")
    with LogDirectory.open(PATH, files) as directory:
        assert directory.meta.others == {"later.key": "a value"}
        directory.set_meta(directory.meta)
    assert b"later.key=a value" in read_whole(files, f"{PATH}/{META_NAME}")


def test_the_vote_is_written_as_kafka_writes_it() -> None:
    assert render(QuorumStateData(leader_id=3, leader_epoch=2), 0) == (
        b'{"clusterId":"","leaderId":3,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[],"data_version":0}'
    )
    state = QuorumStateData(leader_epoch=2, voted_id=4, voted_directory_id=ID)
    assert render(state, 1) == (
        b'{"leaderId":-1,"leaderEpoch":2,"votedId":4,"votedDirectoryId":"La_7VAAfZPCsvT9y72tLkA",'
        b'"data_version":1}'
    )


# Epochs.


def test_epochs_of_offsets() -> None:
    epochs = EpochList([EpochEntry(1, 0), EpochEntry(3, 10), EpochEntry(4, 15)])
    assert [epochs.epoch_of(offset) for offset in (0, 9, 10, 14, 15, 99)] == [1, 1, 3, 3, 4, 4]
    epochs.start_at(12)
    assert epochs.entries == [(3, 12), (4, 15)]
    assert epochs.epoch_of(11) == -1
    epochs.assign(6, 15)
    assert epochs.entries == [(3, 12), (6, 15)]
    epochs.truncate_to(12)
    assert epochs.entries == []
    assert epochs.last_epoch == -1
    epochs.start_at(20)
    assert epochs.entries == []


# Properties.

TEXTS = [
    "a=1\nb = 2\nc:3\nd 4\ne\t:\t5\nf\n=g\n",
    "# comment\n! comment\n  # comment too\nkey=# no comment\n\n  \n",
    "long = one, \\\n   two, \\\r\n\tthree\nnext=1\\\\\nlast=2",
    "k\\:e\\=y\\ s = v\\:a\\=l \\ x\n",
    "u=\\u0041\\u00e9\\ud83d\\ude00\nt=a\\tb\\nc\\rd\\fe\\qf\n",
    "a==b\nc::d\ne =: f\n",
    "twice=1\ntwice=2\n",
    "end=\\",
    "\\\nx=1",
    "#comment \\\nx=1",
    "latin=\xe9\n",
    "bad=\\u12g4\n",
    "short=\\u12",
    "=empty\n:also",
    "a\\\n  b=c\\\n\\\nd",
]


@pytest.mark.kafka
def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    random = Random(1)
    alphabet = "ab=: \t\\\n\r#!u0041\xe9"
    texts = TEXTS + ["".join(random.choices(alphabet, k=12)) for _ in range(1500)]
    # There a carriage return has Java read one more, empty property.
    texts = [text for text in texts if not text.endswith("\\\r")]
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(text.encode("latin-1"))
    oracle = Path(__file__).with_name("PropertiesOracle.java")
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", str(oracle), *map(str, paths)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(texts)
    assert lines.count("refused") > 3
    for text, line in zip(texts, lines, strict=True):
        if line == "refused":
            with pytest.raises(ValueError, match="line"):
                parse_properties(text)
            continue
        pairs = [pair.split("=") for pair in line.split(" ")[1:]]
        expected = {of_hex(key): of_hex(value) for key, value in pairs}
        assert parse_properties(text) == expected, repr(text)


def of_hex(text: str) -> str:
    return bytes.fromhex(text).decode("utf-16-be", "replace")


@given(st.dictionaries(st.text(), st.text()))
def test_properties_that_were_written_are_read(properties: dict[str, str]) -> None:
    text = render_properties(properties)
    assert text.isascii()
    assert parse_properties(text) == properties
