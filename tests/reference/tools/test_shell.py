"""The shell on logs that are damaged, grow, are cut short or hold strange names."""

from __future__ import annotations

import random
import re
import shutil
import tracemalloc
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.metadata_writer import SEGMENT, frame, write_log
from tests.reference.log.corpus import METADATA, unpack
from tests.reference.tools.metadata_shell import CORPUS

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.control import control_value, encode_control_values
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.metadata import reader
from kraftspec.reference.raft.types import SnapshotId
from kraftspec.reference.tools.shell import paths
from kraftspec.reference.tools.shell.commands import COMMANDS, Shell, Status, in_columns
from kraftspec.reference.tools.shell.load import LEADER_CHANGES_MAX, Source
from kraftspec.reference.tools.shell.tree import Directory, Leaf, entity_name

CHECKPOINT = "00000000000000000273-0000000003.checkpoint"
CORPUS_END = 276


class Session:
    """A shell whose lines are kept."""

    def __init__(self, source: Source, **more: Any) -> None:
        self.said: list[str] = []
        self.errors: list[str] = []
        self.json: list[Any] = []
        self.shell = Shell(
            source, "1.2", out=self.said.append, err=self.errors.append,
            out_json=self.json.append, **more,
        )  # fmt: skip
        self.shell.load()

    def ask(self, line: str) -> list[str]:
        """What a line prints, where it is no error."""
        self.said.clear()
        assert self.shell.run_line(line) == Status.DONE, self.errors
        return list(self.said)


def of(path: Path, offset: int | None = None) -> Session:
    return Session(Source(directory=str(path), offset=offset))


def topic(name: str, number: int = 0) -> list[Message]:
    topic_id = Uuid(bytes([number + 1]) * 16)
    partition = kafka.PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0,
        partition_epoch=0, directories=(Uuid(b"d" * 16),),
    )  # fmt: skip
    return [kafka.TopicRecord(name=name, topic_id=topic_id), partition]


def batch(records: Sequence[Message], at: int) -> bytes:
    return encode_batch(
        [frame(record) for record in records], timestamps=1000, base_offset=at,
        partition_leader_epoch=1,
    )  # fmt: skip


def log_of(directory: Path, *names: str) -> list[bytes]:
    """Write a log of one topic a batch (two records); return the batches."""
    batches = [batch(topic(name, number), 2 * number) for number, name in enumerate(names)]
    (directory / SEGMENT).write_bytes(b"".join(batches))
    return batches


def test_a_real_directory() -> None:
    session = of(CORPUS)
    assert session.ask("ls /") == ["image", "local", "quorum"]
    assert session.ask("cat /quorum/log/endOffset /quorum/kraftVersion") == [str(CORPUS_END), "1"]
    assert session.ask("ls /quorum/voters") == ["3001", "3002", "3003"]
    assert session.ask("cat /local/version") == ["1.2"]
    assert session.ask("cat /quorum/snapshot/records") == ["84"]


def test_leader_changes_of_a_real_log(tmp_path: Path) -> None:
    shutil.copy(CORPUS / SEGMENT, tmp_path)
    session = of(tmp_path)
    leader = session.ask("cat /quorum/leader/id")
    assert leader in (["3001"], ["3002"], ["3003"])
    assert session.ask("ls /quorum/leaderChanges") == ["1"]
    assert session.ask("cat /quorum/leaderChanges/1/{id,offset}") == [*leader, "0"]
    assert session.ask("cat /quorum/leader/voters") == ["[3001, 3002, 3003]"]
    granting = session.ask("cat /quorum/leader/grantingVoters")
    assert leader[0] in granting[0]


def test_the_stored_vote(tmp_path: Path) -> None:
    """Who leads is known when no leader change is behind the checkpoint."""
    for shape, epoch in (("failovers", "6"), ("static", "2")):
        log = unpack(shape, tmp_path)[0] / METADATA
        session = of(log.parent)
        assert session.ask("cat /quorum/state/leaderId /quorum/state/leaderEpoch") == [
            "3001",
            epoch,
        ]
        assert session.errors == []
    assert session.ask("cat /quorum/state/currentVoters") == [
        "[{voterId=3001}, {voterId=3002}, {voterId=3003}]"
    ]
    (log / "quorum-state").write_bytes(b'{"leaderId":')
    damaged = of(log)
    (error,) = damaged.errors
    assert f"{log}/quorum-state: " in error
    assert "state" not in damaged.ask("ls /quorum")
    assert damaged.ask("ls /image") == session.ask("ls /image")


def test_an_offset(tmp_path: Path) -> None:
    log_of(tmp_path, "a", "b", "c")
    for offset, names in ((0, []), (2, ["a"]), (3, ["a", "b"]), (6, ["a", "b", "c"])):
        session = of(tmp_path, offset)
        assert session.ask("ls /image/topics/byName") == names
        assert session.ask("cat /quorum/log/endOffset") == [str(offset)]
        assert session.errors == []
    assert of(tmp_path, 3).ask("ls /image/topics/byName/b") == ["id", "name"]
    beyond = of(tmp_path, 7)
    assert beyond.errors == [
        "the log ends at offset 6, before 7; the image is that of the offsets below 6"
    ]
    assert of(CORPUS, 200).ask("cat /quorum/snapshot/endOffset") == ["157"]
    alone = Source(snapshot=str(CORPUS / CHECKPOINT), offset=272)
    with pytest.raises(ValueError, match=r"before offset 272 is not here.* an offset from 273 on"):
        Session(alone)


def test_a_growing_log_is_read_again(tmp_path: Path) -> None:
    """As a node writes it: zeros ahead, half a batch at the end."""
    first, second = (batch(topic(name, number), 2 * number) for number, name in enumerate("ab"))
    path = tmp_path / SEGMENT
    path.write_bytes(first + bytes(4096))
    session = of(tmp_path)
    session.ask("cd /image/topics/byName")
    assert session.ask("ls") == ["a"]
    for half in (5, 30, 70, len(second) - 20):
        path.write_bytes(first + second[:half])
        assert session.ask("reload") == ["end offset 2 -> 2"]
        path.write_bytes(first + second[:half] + bytes(4096))
        assert session.ask("reload") == ["end offset 2 -> 2"]
    path.write_bytes(first + second + bytes(100))
    assert session.ask("reload") == ["end offset 2 -> 4"]
    assert session.ask("ls") == ["a", "b"]
    path.write_bytes(first)
    assert session.ask("reload") == ["end offset 4 -> 2"]
    path.unlink()
    assert session.shell.run_line("reload") == Status.FAILED
    assert session.errors[-1].endswith("; what was read before is still here")
    assert session.ask("ls") == ["a"]


def test_the_directory_of_a_node_that_runs(tmp_path: Path) -> None:
    """Its lock is held, and is neither asked for nor lost."""
    path = str(tmp_path / "log")
    LogDirectory.format(path, MetaProperties(cluster_id="c" * 22, node_id=1))
    with LogDirectory.open(path) as directory:
        log = directory.open_log()
        log.append_control(1, [control_value(kafka.LeaderChangeMessage(leader_id=1))], 5)
        session = of(Path(path))
        assert session.ask("cat /quorum/leader/id /quorum/leader/epoch") == ["1", "1"]
        log.append_records(1, [frame(record) for record in topic("a")], 6)
        assert session.ask("reload") == ["end offset 1 -> 3"]
        header = [control_value(kafka.SnapshotHeaderRecord(last_contained_log_timestamp=6))]
        snapshot = log.create_snapshot(SnapshotId(3, 1), header, timestamp_ms=7)
        assert snapshot is not None
        snapshot.append([frame(record) for record in topic("a")])
        assert session.ask("reload") == ["end offset 3 -> 3"]
        snapshot.freeze()
        assert session.ask("reload") == ["end offset 3 -> 3"]
        assert session.ask("cat /quorum/snapshot/records") == ["4"]
        assert session.ask("cat /image/provenance") == [
            "offset 2, epoch 1, time 1970-01-01T00:00:00.006Z[UTC]"
        ]
        with pytest.raises(BlockingIOError):
            LogDirectory.open(path)
        log.close()
    assert session.errors == []


def bent(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def test_a_damaged_batch_ends_the_image(tmp_path: Path) -> None:
    one, two, three = log_of(tmp_path, "a", "b", "c")
    path = tmp_path / SEGMENT
    path.write_bytes(one + bent(two, len(two) - 3) + three)
    session = of(tmp_path)
    (error,) = session.errors
    assert error.startswith(f"{path}, byte {len(one)}: ")
    assert "crc_mismatch" in error
    assert f"{len(three)} bytes of good batches follow" in error
    assert error.endswith("the image is that of the offsets below 2")
    assert session.ask("ls /image/topics/byName") == ["a"]
    assert session.shell.run_line("reload") == Status.FAILED


def test_a_record_that_is_none(tmp_path: Path) -> None:
    one = batch(topic("a"), 0)
    bad = encode_batch([b"\x01\x63\x00"], timestamps=0, base_offset=2)
    (tmp_path / SEGMENT).write_bytes(one + bad)
    (error,) = of(tmp_path).errors
    assert f"{SEGMENT}, byte {len(one)}: record at offset 2, byte 1 of its value" in error
    assert error.endswith("the image is that of the offsets below 2")
    write_log(tmp_path, [topic("a"), [kafka.RemoveTopicRecord()]])
    (error,) = of(tmp_path).errors
    assert "offset 2 (RemoveTopicRecord): there is no topic" in error
    assert f"its batch begins at byte {len(one)}; the image is that" in error


def test_records_are_missing(tmp_path: Path) -> None:
    segments = sorted(CORPUS.glob("*.log"))
    shutil.copy(segments[1], tmp_path)
    (error,) = of(tmp_path).errors
    assert "the log goes on at offset 162; 0 is missing, and no checkpoint has it" in error
    shutil.copy(segments[0], tmp_path)
    (tmp_path / segments[0].name).write_bytes(segments[0].read_bytes()[:-200])
    (error,) = of(tmp_path).errors
    assert str(segments[0]).rpartition("/")[2] in error


@pytest.mark.parametrize("cut", [-1, 3000])
def test_an_older_checkpoint_does_for_a_damaged_one(tmp_path: Path, cut: int) -> None:
    whole = of(CORPUS)
    directory = tmp_path / "log"
    shutil.copytree(CORPUS, directory)
    path = directory / CHECKPOINT
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:cut])
    session = of(directory)
    (error,) = session.errors
    assert error.startswith(f"{path}, byte ")
    assert "records of the checkpoint could be read" in error
    assert session.ask("tree /image/topics") == whole.ask("tree /image/topics")
    assert session.ask("cat /quorum/snapshot/endOffset") == ["157"]
    alone = Session(Source(snapshot=str(path)))
    assert alone.errors == [error]
    assert set(alone.ask("ls /image")) == set(whole.ask("ls /image"))


def test_what_is_no_log(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.log"
    garbage.write_bytes(b"this is no log at all, but text\n" * 99)
    (error,) = Session(Source(snapshot=str(garbage))).errors
    assert f"{garbage}, byte 0: " in error
    lie = tmp_path / "lie.log"
    lie.write_bytes(bytes(8) + (2**31 - 1).to_bytes(4, "big") + b"\x00" * 4 + b"\x02" + b"x" * 999)
    assert Session(Source(snapshot=str(lie))).ask("cat /quorum/log/endOffset") == ["0"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="holds no metadata log"):
        of(empty)
    (empty / "node-1" / METADATA_NAME).mkdir(parents=True)
    with pytest.raises(ValueError, match=f"name one of its log directories: {empty / 'node-1'}$"):
        of(empty)
    with pytest.raises(IsADirectoryError, match="give it as --directory"):
        Session(Source(snapshot=str(empty)))
    with pytest.raises(FileNotFoundError):
        Session(Source(snapshot=str(tmp_path / "none.checkpoint")))
    (tmp_path / SEGMENT).touch()
    assert Session(Source(snapshot=str(tmp_path / SEGMENT))).errors == []


def test_what_is_read_costs_no_more_than_the_image(tmp_path: Path) -> None:
    """Many records that leave little: what goes by is not kept."""
    count = 30
    values = [frame(kafka.NoOpRecord())] * 1000
    with (tmp_path / SEGMENT).open("wb") as file:
        for number in range(count):
            file.write(encode_batch(values, timestamps=0, base_offset=number * len(values)))
    tracemalloc.start()
    session = of(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert session.ask("cat /quorum/log/endOffset") == [str(count * len(values))]
    assert peak < 4 << 20


def test_a_length_that_lies_costs_nothing(tmp_path: Path) -> None:
    first = batch(topic("a"), 0)
    head = bytes(8) + (2**31 - 1).to_bytes(4, "big") + bytes(4) + b"\x02"
    with (tmp_path / SEGMENT).open("wb") as file:
        file.write(first + head)
        file.truncate(1 << 30)  # Without blocks of its own.
    tracemalloc.start()
    session = of(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * reader.BATCH_BYTES_MAX
    (error,) = session.errors
    assert error.startswith(f"{tmp_path / SEGMENT}, byte {len(first)}: ")
    assert session.ask("ls /image/topics/byName") == ["a"]


def test_leader_changes_are_bounded(tmp_path: Path) -> None:
    batches = [
        encode_control_values(
            [control_value(kafka.LeaderChangeMessage(leader_id=epoch % 3))],
            base_offset=epoch - 1, epoch=epoch, timestamp_ms=epoch,
        )
        for epoch in range(1, LEADER_CHANGES_MAX + 9)
    ]  # fmt: skip
    (tmp_path / SEGMENT).write_bytes(b"".join(batches))
    session = of(tmp_path)
    assert len(session.ask("ls /quorum/leaderChanges")) == LEADER_CHANGES_MAX
    assert session.ask("cat /quorum/leader/epoch") == [str(LEADER_CHANGES_MAX + 8)]


NAMES = ["a/b", "with space", "back\\slash", "st*r", "q?", "{x,y}", "it's", '"', "", "ä\N{FIRE}",
         "tab\there", "\x1b[31mred", "..", "."]  # fmt: skip


def users(directory: Path, names: Sequence[str]) -> Session:
    """A log of SCRAM users, whose names may be anything."""
    records = [
        kafka.UserScramCredentialRecord(
            name=name, mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=number
        )
        for number, name in enumerate(names)
    ]
    (directory / SEGMENT).write_bytes(batch(records, 0))
    return of(directory)


def test_every_name_can_be_reached(tmp_path: Path) -> None:
    """By the path that find prints, and by the word that completion offers."""
    session = users(tmp_path, NAMES)
    place = "/image/scram/SCRAM-SHA-256"
    assert sorted(session.ask(f"ls {place}")) == sorted(NAMES)
    reached = 0
    for path in session.ask(f"find {place}")[1:]:
        if not path.endswith("/"):  # No path has an empty name.
            (match,) = session.shell.find(path)
            assert paths.path_of(match.names) == path
            reached += 1
    assert reached == len(NAMES) - 1
    start, offered = session.shell.complete(f"cat {place}/")
    assert start == len("cat ")
    assert {name for _, name in offered} == set(NAMES)
    for word, name in offered:
        if name:
            (line,) = session.ask(f"cat {word}")
            assert line.endswith(f"iterations={NAMES.index(name)})")


def test_completion(tmp_path: Path) -> None:
    log_of(tmp_path, "orders", "orchard", "zoo")
    complete = of(tmp_path).shell.complete
    assert complete("") == (0, [(name, name) for name in COMMANDS])
    assert complete("c")[1] == [("cat", "cat"), ("cd", "cd")]
    assert complete("man tr") == (4, [("tree", "tree")])
    assert complete("ls /im") == (3, [("/image/", "image")])
    assert complete("ls im") == (3, [("image/", "image")])
    assert complete("ls /image/topics/byName/or")[1] == [
        ("/image/topics/byName/orchard/", "orchard"), ("/image/topics/byName/orders/", "orders"),
    ]  # fmt: skip
    assert complete("cat x image/topics/byName/zoo/")[1][0] == ("image/topics/byName/zoo/0", "0")
    assert complete("cat '/image/prov") == (4, [("/image/provenance", "provenance")])
    for line in ("ls /nope/", "pwd ", "history ", "what /", "cat /image/provenance/"):
        assert complete(line)[1] == []


@pytest.mark.parametrize(
    ("entity", "name"),
    [
        ((("user", "ann"),), "user(ann)"),
        ((("user", None),), "user(<default>)"),
        ((("user", "<default>"),), "user(\\<default>)"),
        ((("client-id", "app"), ("user", None)), "clientId(app)_user(<default>)"),
        ((("ip", "::1"),), "ip(::1)"),
        ((("user", "a(b)\\"),), "user(a\\(b\\)\\\\)"),
    ],
)
def test_entities_of_quotas(entity: tuple[tuple[str, str | None], ...], name: str) -> None:
    assert entity_name(entity) == name


def test_an_open_transaction(tmp_path: Path) -> None:
    begin = kafka.BeginTransactionRecord(name="work")
    write_log(tmp_path, [topic("a"), [begin, *topic("b", 1)]])
    session = of(tmp_path)
    assert session.ask("ls /image/topics/byName") == ["a"]
    assert session.ask("cat /quorum/log/openTransaction") == ["work"]
    assert session.errors == []


def test_json(tmp_path: Path) -> None:
    log_of(tmp_path, "a")
    session = of(tmp_path)

    def report(line: str) -> Any:
        session.json.clear()
        assert session.ask(line) == []
        (value,) = session.json
        return value

    assert report("ls --json /image/topics /local/version") == {
        "/local/version": None, "/image/topics": ["byId", "byName"],
    }  # fmt: skip
    partition = report("cat --json /image/topics/byName/a/0")["/image/topics/byName/a/0"]
    assert (partition["leader"], partition["replicas"]) == (1, [1])
    assert partition["directories"] == [str(Uuid(b"d" * 16))]
    assert report("tree --json /image/producerIds /quorum/log") == {
        "/image/producerIds": {"nextProducerId": -1},
        "/quorum/log": {"endOffset": 2, "epoch": 1, "files": [str(tmp_path / SEGMENT)]},
    }
    assert report("find /local --json") == ["/local", "/local/commitId", "/local/version"]
    always = Session(Source(directory=str(tmp_path)), as_json=True)
    assert always.ask("cat /local/version") == []
    assert always.json == [{"/local/version": "1.2"}]


def test_history_keeps_its_numbers(tmp_path: Path) -> None:
    log_of(tmp_path, "a")
    session = of(tmp_path)
    for line in ("pwd", "  ", "ls  /local"):
        session.ask(line)
    assert session.ask("history") == ["    0  pwd", "    1  ls  /local", "    2  history"]
    assert session.ask("history 1") == ["    3  history 1"]
    assert session.shell.run_line("history x") == Status.WRONG_USAGE
    assert session.shell.run_line("ls 'open") == Status.WRONG_USAGE
    assert session.errors[-1] == "No closing quotation: ls 'open"


def test_exit(tmp_path: Path) -> None:
    log_of(tmp_path, "a")
    session = of(tmp_path)
    assert not session.shell.is_over
    session.ask("exit")
    assert session.shell.is_over


def test_columns() -> None:
    names = [f"name-{number}" for number in range(7)]
    assert list(in_columns(names, None)) == names
    assert list(in_columns(names, 8)) == names
    assert list(in_columns(names, 24)) == [
        "name-0  name-3  name-6", "name-1  name-4", "name-2  name-5",
    ]  # fmt: skip
    assert list(in_columns(names, 80)) == ["  ".join(names)]
    assert list(in_columns([], 80)) == []
    wide = Session(Source(directory=str(CORPUS)), width=lambda: 40)
    assert wide.ask("ls /") == ["image  local  quorum"]


def test_a_tree_is_made_as_it_is_walked() -> None:
    root = of(CORPUS).shell.root
    topics = next(paths.find(root, "/image/topics/byName", ())).node
    assert isinstance(topics, Directory)
    assert topics.child("nope") is None
    matches = paths.find(root, "topic-1?", ("image", "topics", "byName"))
    assert [one.names[-1] for one in matches] == ["topic-10", "topic-11"]


GLOBS = {
    "a*": r"a.*", "*a*": r".*a.*", "?b": r".b", "{a,b}c": r"(?:a|b)c", "{a*,?}b": r"(?:a.*|.)b",
    "{,a}{b,}": r"(?:|a)(?:b|)", "a\\*": r"a\*", "**b": r".*.*b", "{a,b,}": r"(?:a|b|)",
    "{a": r"\{a", "a}": r"a\}", "{a{b}": r"\{a\{b\}", "a,b": r"a,b", "[ab]": r"\[ab\]",
}  # fmt: skip


@pytest.mark.parametrize("glob", GLOBS)
def test_globs(glob: str) -> None:
    """As expressions of the standard library have them, for all short names."""
    letters = "ab*c{},[]"
    names = ["".join(each) for size in range(4) for each in product(letters, repeat=size)]
    root = Directory(lambda: names, lambda name: Leaf(name) if name in names else None)
    names_matched = [one.names[-1] for one in paths.find(root, f"/{glob}", ())]
    wanted = {name for name in names if re.fullmatch(GLOBS[glob], name)}
    assert set(names_matched) == wanted & set(names)
    assert len(names_matched) == len(set(names_matched))


def test_no_glob_takes_long() -> None:
    name = "a" * 249
    root = Directory(lambda: [name], Leaf)
    assert list(paths.find(root, "/" + "*a" * 60 + "b", ())) == []


def test_no_log_is_too_strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real files bent anywhere: an image, and a problem that names the file and a byte of it."""
    monkeypatch.setattr(reader, "_LOOK_AGAIN_S", 0.0)
    draw = random.Random(8)
    told = silent = 0
    for name in (SEGMENT, CHECKPOINT):
        data = (CORPUS / name).read_bytes()
        path = tmp_path / name
        for _ in range(60):
            changed = bytearray(data)
            for _ in range(draw.choice((1, 1, 5))):
                changed[draw.randrange(len(changed))] = draw.randrange(256)
            if draw.random() < 0.3:
                del changed[draw.randrange(len(changed)) :]
            path.write_bytes(changed)
            session = Session(Source(snapshot=str(path)))
            assert session.ask("tree /")
            for error in session.errors:
                assert str(path) in error
                assert re.search(r"byte \d+|no footer", error)
                told += 1
            silent += not session.errors
    assert told > 60
    assert silent > 0
