"""``kraftspec storage`` beside Kafka's StorageTool: the same words, and the same directories."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.reference.kafka_tools import STORAGE, KafkaTools, Said, ours

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.records import Record
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.log import LogDirectory
from kraftspec.reference.log.directory import MetaProperties
from kraftspec.reference.log.properties import parse_properties

CLUSTER = "YtGxSdNvQRG40ENstXFRtw"
DIRECTORY_1 = "Kns6GUMMQ7aTYtDbaR5iAw"
DIRECTORY_2 = "Lns6GUMMQ7aTYtDbaR5iAw"
VOTERS = f"1@127.0.0.1:9093:{DIRECTORY_1},2@[::1]:9094:{DIRECTORY_2}"
SALT = '"MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3p1NA=="'

CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "log.dirs": "{dir}/a",
}
DYNAMIC = CONTROLLER | {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
STATIC = CONTROLLER | {"controller.quorum.voters": "1@127.0.0.1:9093"}
BROKER = DYNAMIC | {
    "process.roles": "broker",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "{dir}/b,{dir}/a",
}
BOTH = BROKER | {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "metadata.log.dir": "{dir}/m",
}
ADVERTISED = DYNAMIC | {"advertised.listeners": "CONTROLLER://c.example:1111"}
UNSTABLE = DYNAMIC | {"unstable.feature.versions.enable": "true"}

pytestmark = pytest.mark.kafka


def write(directory: Path, properties: Mapping[str, str]) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / "node.properties"
    lines = [f"{key}={value}\n".format(dir=directory) for key, value in properties.items()]
    path.write_text("".join(lines), "utf-8")
    return path


class Pair:
    """A directory for Kafka's tool and one for ours, of which both do the same."""

    def __init__(self, kafka: KafkaTools, path: Path, properties: Mapping[str, str]) -> None:
        self.kafka = kafka
        self.theirs, self.ours = path / "kafka", path / "ours."  # Of equal length.
        for directory in (self.theirs, self.ours):
            write(directory, properties)

    def run(self, *arguments: str) -> tuple[Said, Said]:
        def filled(directory: Path) -> Sequence[str]:
            command, *rest = arguments
            return [command, "-c", str(directory / "node.properties"), *rest]

        theirs = self.kafka.run(STORAGE, *filled(self.theirs))
        return theirs, ours("storage", *filled(self.ours))

    def same(self, *arguments: str) -> Said:
        """Run both; what they say and how they end is the same, but for paths and random ids."""
        theirs, done = self.run(*arguments)
        assert done.code == theirs.code
        assert neutral(done.out, self.ours) == neutral(theirs.out, self.theirs)
        refusal = neutral(theirs.refusal, self.theirs)
        if theirs.code:
            assert neutral(done.err.strip(), self.ours).startswith(refusal)
        return done

    def same_directories(self) -> None:
        trees = [tree(directory) for directory in (self.theirs, self.ours)]
        assert trees[0] == trees[1]
        assert len(trees[0]) > 1


def neutral(text: str, directory: Path) -> str:
    """Return it without what is random; directories come in the order of a hash."""
    text = text.replace(str(directory), "DIR")
    if "Formatting" in text:
        text = "".join(sorted(text.splitlines(keepends=True)))
    text = re.sub(r"DIR/\w is already", "one is already", text)
    text = re.sub(r"(salt|storedKey|serverKey)=\[[-\d, ]*\]", r"\1", text)
    return re.sub(r"directory\.id=[\w-]{22}", "directory.id", text)


def tree(directory: Path) -> dict[str, object]:
    """What is in a directory, times and random ids left out."""
    entries: dict[str, object] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.suffix == ".checkpoint":
            entries[name] = (path.stat().st_mode, batches(path.read_bytes()))
        elif path.name == "meta.properties":
            properties = parse_properties(path.read_text("utf-8"))
            assert len(properties.pop("directory.id")) == 22
            entries[name] = properties
        elif path.is_dir():
            entries[name] = None
        elif path.name not in (".lock", "node.properties"):  # Kafka locks when a node opens it.
            entries[name] = path.read_bytes()
    return entries


def batches(data: bytes) -> list[object]:
    """The batches of a checkpoint without their times, and without the ids that were drawn."""
    checkpoint: list[object] = []
    for header in iterate_headers(data):
        records = [values(record) for record in decode_batch(data, header.position)]
        checkpoint.append(
            (header.position, header.size, header.base_offset, header.attributes, records)
        )
    return checkpoint


def values(record: Record) -> tuple[object, ...]:
    value = record.value or b""
    if record.key == b"\0\0\0\3":  # SnapshotHeader: its second field is a time.
        assert len(value) == 11
        timestamp = int.from_bytes(value[2:10], "big")
        value = value[:2] + (b"now" if timestamp else b"0") + value[10:]
    elif record.key == b"\0\0\0\6" and DIRECTORY_1.encode() not in value:
        value = re.sub(rb"(?s)(\x00{3}\x01).{16}(\x02\x0bCONTROLLER)", rb"\1\2", value)
    return record.offset, record.key, value, record.headers


FORMATS = {
    "standalone": (DYNAMIC, ("-s",)),
    "standalone, long": (DYNAMIC, ("--standalone",)),
    "static": (STATIC, ()),
    "static, no voters": (STATIC, ("-N",)),
    "static, kraft 0": (STATIC, ("-f", "kraft.version=0")),
    "initial": (DYNAMIC, ("-I", VOTERS)),
    "initial, others": (DYNAMIC, ("-I", f"2@h:0:{DIRECTORY_2}")),
    "initial, IPv4 in IPv6": (DYNAMIC, ("-I", f"1@[::ffff:127.0.0.1]:1:{DIRECTORY_1}")),
    "initial, spaces": (DYNAMIC, (f"-I, 1@h:65535:{DIRECTORY_1} ,",)),
    "none": (DYNAMIC, ("--no-initial-controllers",)),
    "advertised": (ADVERTISED, ("-s",)),
    "broker": (BROKER, ()),
    "broker, initial": (BROKER, ("-I", VOTERS)),
    "broker and controller": (BOTH, ("-s",)),
    "kraft 1": (DYNAMIC, ("-s", "-fkraft.version=1")),
    "3.9": (DYNAMIC, ("-s", "-r", "3.9")),
    "3.7": (DYNAMIC, ("-s", "--release-version=3.7")),
    "3.9.1": (DYNAMIC, ("-s", "-r3.9.1")),
    "3.3-IV3": (DYNAMIC, ("-s", "-r", "3.3-IV3")),
    "4.0": (DYNAMIC, ("-s", "-r", "4.0")),
    "4.0.0-IV1": (DYNAMIC, ("-s", "-r", "4.0.0-IV1")),
    "features": (DYNAMIC, ("-s", "-f", "transaction.version=0", "--feature", "group.version=0")),
    "feature twice": (
        DYNAMIC, ("-s", "-f", "transaction.version=1", "-f", "transaction.version=2"),
    ),
    "metadata 20": (DYNAMIC, ("-s", "-f", "metadata.version=20")),
    "feature of a later release": (DYNAMIC, ("-s", "-r", "3.8", "-f", "transaction.version=2")),
    "unstable": (UNSTABLE, ("-s", "-f", "metadata.version=34")),
    "unstable, no release": (UNSTABLE, ("-s",)),
    "4.3": (DYNAMIC, ("-s", "-r", "4.3")),
    "4.4-IV1": (DYNAMIC, ("-s", "-r", "4.4-IV1")),
    "metadata 31": (DYNAMIC, ("-s", "-f", "metadata.version=31")),
    "share 1": (DYNAMIC, ("-s", "-f", "share.version=1")),
    "share 2 in 4.3": (DYNAMIC, ("-s", "-r", "4.3", "-f", "share.version=2")),
    "scram": (DYNAMIC, (
        "-s", "-S", f"SCRAM-SHA-256=[name=alice,salt={SALT},password=x]",
        "--add-scram", f"SCRAM-SHA-512=[name=alice,salt={SALT},password=y,iterations=8192]",
        "-S", 'SCRAM-SHA-256=[name=bob,iterations=8192,salt="N3E=",saltedpassword="YCE="]',
    )),
    "cluster id": (DYNAMIC, ("-s", "-t", "no uuid")),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats_as_kafka_does(name: str, kafka: KafkaTools, tmp_path: Path) -> None:
    properties, arguments = FORMATS[name]
    pair = Pair(kafka, tmp_path, properties)
    cluster = () if "-t" in arguments else ("--cluster-id", CLUSTER)
    done = pair.same("format", *cluster, *arguments)
    assert done.code == 0
    pair.same_directories()
    pair.same("info")
    again = pair.same("format", *cluster, *arguments)
    assert "is already formatted" in again.err
    pair.same("format", *cluster, *arguments, "--ignore-formatted")
    # Each reads what the other made.
    pair.theirs, pair.ours = pair.ours, pair.theirs
    pair.same("info")
    for path in (pair.ours, pair.theirs):
        for directory in path.iterdir():
            if directory.is_dir():
                cluster_id = arguments[-1] if "-t" in arguments else CLUSTER
                with LogDirectory.open(str(directory), node_id=1, cluster_id=cluster_id) as opened:
                    assert opened.meta.profile == "kafka"


MISTAKES = {
    "no kind": (DYNAMIC, ()),
    "static, standalone": (STATIC, ("-s",)),
    "static, initial": (STATIC, ("-I", VOTERS)),
    "broker, standalone": (BROKER, ("-s",)),
    "release": (DYNAMIC, ("-s", "-r", "3.2")),
    "release to come": (DYNAMIC, ("-s", "-r", "4.5")),
    "release that is none": (DYNAMIC, ("-s", "-r", "")),
    "kraft 0": (DYNAMIC, ("-s", "-f", "kraft.version=0")),
    "kraft 1, static": (STATIC, ("-f", "kraft.version=1")),
    "kraft 2": (DYNAMIC, ("-s", "-f", "kraft.version=2")),
    "feature level": (DYNAMIC, ("-s", "-f", "transaction.version=9")),
    "feature": (DYNAMIC, ("-s", "-f", "bogus.version=1")),
    "feature without a level": (DYNAMIC, ("-s", "-f", "transaction.version")),
    "feature with no number": (DYNAMIC, ("-s", "-f", "transaction.version=x")),
    "feature out of range": (DYNAMIC, ("-s", "-f", "transaction.version=40000")),
    "metadata twice": (DYNAMIC, ("-s", "-f", "metadata.version=20", "-r", "3.9")),
    "metadata 99": (DYNAMIC, ("-s", "-f", "metadata.version=99")),
    "metadata 34": (DYNAMIC, ("-s", "-f", "metadata.version=34")),
    "dependency": (DYNAMIC, ("-s", "-r", "3.9", "-f", "eligible.leader.replicas.version=1")),
    "voter 1": (DYNAMIC, ("-I", "1")),
    "voter 2": (DYNAMIC, ("-I", "1@h")),
    "voter 3": (DYNAMIC, ("-I", "1@h:")),
    "voter 4": (DYNAMIC, ("-I", f"1@h:x:{DIRECTORY_1}")),
    "voter 5": (DYNAMIC, ("-I", f"x@h:1:{DIRECTORY_1}")),
    "voter 6": (DYNAMIC, ("-I", f"1@h:65536:{DIRECTORY_1}")),
    "voter 7": (DYNAMIC, ("-I", f"1@h:-1:{DIRECTORY_1}")),
    "voter 8": (DYNAMIC, ("-I", "1@h:1:zzz")),
    "voter 9": (DYNAMIC, ("-I", f"1@[::1:9:{DIRECTORY_1}")),
    "voter 10": (DYNAMIC, ("-I", "1@[::1]9")),
    "voter twice": (DYNAMIC, ("-I", f"1@h:1:{DIRECTORY_1},1@h:2:{DIRECTORY_2}")),
    "no voters": (DYNAMIC, ("-I", "")),
    "scram 1": (DYNAMIC, ("-s", "-S", "foo")),
    "scram 2": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-999=[name=a,password=x]")),
    "scram 3": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=name=a,password=x")),
    "scram 4": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,password=x")),
    "scram 5": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[]")),
    "scram 6": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[password=x]")),
    "scram 7": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a]")),
    "scram 8": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,password=x,foo=x]")),
    "scram 9": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,password=x,iterations=1]")),
    "scram 10": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,password=x,iterations=20000]")),
    "scram 11": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,password=x,iterations=x]")),
    "scram 12": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,saltedpassword=YCE=]")),
    "scram 13": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,salt=x$,password=b]")),
    "scram 14": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a, password=b]")),
    "scram 15": (DYNAMIC, ("-s", "-S", "SCRAM-SHA-256=[name=a,password=]")),
    "scram too early": (
        DYNAMIC, ("-s", "-r", "3.3", "-S", "SCRAM-SHA-256=[name=a,password=x]"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_refuses_as_kafka_does(name: str, kafka: KafkaTools, tmp_path: Path) -> None:
    properties, arguments = MISTAKES[name]
    pair = Pair(kafka, tmp_path, properties)
    done = pair.same("format", "-t", CLUSTER, *arguments)
    assert done.code == 1
    assert done.err
    assert [path.name for path in pair.ours.iterdir()] == ["node.properties"]


def test_wrong_usage_ends_as_kafkas_does(kafka: KafkaTools) -> None:
    for arguments in (
        (), ("bogus",), ("format",), ("info",), ("format", "-c", "x"), ("feature-dependencies",),
        ("format", "-c", "x", "-t", "y", "-s", "-N"), ("format", "-c", "x", "-t", "y", "--nope"),
        ("format", "-c", "x", "-t", "y", "extra"), ("info", "-c", "there is none"),
    ):  # fmt: skip
        theirs, done = kafka.run(STORAGE, *arguments), ours("storage", *arguments)
        assert (done.code, theirs.code) == (1, 1), arguments
        assert done.err, arguments


CONFIGS: dict[str, dict[str, str | None]] = {
    "no node.id": {"node.id": None},
    "node.id": {"node.id": "x"},
    "node.id below 0": {"node.id": "-1"},
    "no roles": {"process.roles": None},
    "role": {"process.roles": "conductor"},
    "no listener names": {"controller.listener.names": None},
    "no listeners": {"listeners": None},
    "listener of another name": {"listeners": "FOO://127.0.0.1:9093"},
    "port": {"listeners": "CONTROLLER://127.0.0.1:x"},
    "no quorum": {"controller.quorum.bootstrap.servers": None},
    "no log.dirs": {"log.dirs": ""},
    "voters without this node": {"controller.quorum.voters": "2@h:1"},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_that_kafka_refuses(name: str, kafka: KafkaTools, tmp_path: Path) -> None:
    changed: dict[str, str | None] = {**DYNAMIC, **CONFIGS[name]}
    pair = Pair(
        kafka, tmp_path, {key: value for key, value in changed.items() if value is not None}
    )
    theirs, done = pair.run("format", "-t", CLUSTER, "-N")
    assert (done.code, theirs.code) == (1, 1)
    key = next(iter(CONFIGS[name]))
    assert key in done.err or "listener" in done.err
    assert str(pair.ours / "node.properties") in done.err


METAS = {
    "other node": "version=1\nnode.id=2\ncluster.id=C\ndirectory.id=D\n",
    "other cluster": "version=1\nnode.id=1\ncluster.id=other\ndirectory.id=D\n",
    "no directory": "version=1\nnode.id=1\ncluster.id=C\n",
    "no node": "version=1\ncluster.id=C\n",
    "no cluster": "version=1\nnode.id=1\n",
    "node": "version=1\nnode.id=x\ncluster.id=C\n",
    "version": "version=7\n",
    "version that is none": "version=x\n",
    "legacy": "version=0\nbroker.id=1\ncluster.id=C\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", METAS)
def test_a_meta_properties_that_is_wrong(name: str, kafka: KafkaTools, tmp_path: Path) -> None:
    pair = Pair(kafka, tmp_path, BOTH)
    assert pair.same("format", "-t", CLUSTER, "-s").code == 0
    for directory in (pair.theirs, pair.ours):
        text = METAS[name].replace("=C", f"={CLUSTER}").replace("=D", f"={DIRECTORY_2}")
        (directory / "b" / "meta.properties").write_text(text, "utf-8")
    theirs, done = pair.run("info")
    assert done.code == theirs.code
    output = theirs.out[theirs.out.index("Found log") :]  # A trace may come first.
    assert neutral(done.out, pair.ours) == neutral(output, pair.theirs)
    pair.same("format", "-t", CLUSTER, "-s", "-g")
    # The first directory may be the one that is wrong.
    for directory in (pair.theirs, pair.ours):
        shutil.copyfile(directory / "b" / "meta.properties", directory / "a" / "meta.properties")
    theirs, done = pair.run("info")
    output = theirs.out[theirs.out.index("Found log") :]
    assert neutral(done.out, pair.ours) == neutral(output, pair.theirs)


def test_directories_that_are_none(kafka: KafkaTools, tmp_path: Path) -> None:
    pair = Pair(kafka, tmp_path, BOTH)
    for directory in (pair.theirs, pair.ours):
        (directory / "a").touch()
        (directory / "m").mkdir()
    done = pair.same("info")
    assert done.code == 1
    done = pair.same("format", "-t", CLUSTER, "-s")
    assert done.code == 0
    assert "Ignoring..." in done.out
    pair.same_directories()


def test_no_directory_can_be_formatted(kafka: KafkaTools, tmp_path: Path) -> None:
    pair = Pair(kafka, tmp_path, DYNAMIC)
    for directory in (pair.theirs, pair.ours):
        (directory / "a").touch()
    theirs, done = pair.run("format", "-t", CLUSTER, "-s")
    assert "No available log directories to format. (" in done.out + done.err
    assert "/a: Not a directory" in done.out + done.err
    assert "No available log directories to format." in theirs.out + theirs.refusal
    assert done.code == theirs.code


def test_version_mapping(kafka: KafkaTools) -> None:
    releases = [
        "3.3", "3.4", "3.5", "3.6-IV1", "3.7", "3.8", "3.9", "3.9.1", "4.0", "4.0-IV0", "4.0-IV1",
        "4.0-IV2", "4.0.0-IV1", "4.1-IV0", "4.1", "4.2-IV0", "4.2", "4.3", "4.3-IV0", "4.4-IV0",
        "4.4-IV1", "4.4-IV2", "4.4", "4.5-IV0", "4.5", "3.2", "", "4", "x",
    ]  # fmt: skip
    for arguments in ([], *(["-r", release] for release in releases)):
        theirs = kafka.run(STORAGE, "version-mapping", *arguments)
        done = ours("storage", "version-mapping", *arguments)
        assert (done.code, done.out, done.err.strip()) == (theirs.code, theirs.out, theirs.refusal)


def test_feature_dependencies(kafka: KafkaTools) -> None:
    for feature in (
        "metadata.version=30", "metadata.version=34", "metadata.version=35", "metadata.version=7",
        "metadata.version=5", "metadata.version=x", "kraft.version=0", "kraft.version=1",
        "transaction.version=2", "transaction.version=7", "group.version=1",
        "eligible.leader.replicas.version=1", "eligible.leader.replicas.version=0",
        "share.version=1", "share.version=2", "share.version=3", "streams.version=1", "bogus=1",
        "bogus",
    ):  # fmt: skip
        theirs = kafka.run(STORAGE, "feature-dependencies", "-f", feature)
        done = ours("storage", "feature-dependencies", "--feature", feature)
        assert (done.code, done.out, done.err.strip()) == (theirs.code, theirs.out, theirs.refusal)
    several = ("-f", "group.version=1", "-f", "eligible.leader.replicas.version=1")
    theirs = kafka.run(STORAGE, "feature-dependencies", *several)
    assert ours("storage", "feature-dependencies", *several).out == theirs.out


def test_meta_properties_say_the_same(kafka: KafkaTools, tmp_path: Path) -> None:
    """Kafka's file opens as ours, whatever the order of its lines."""
    pair = Pair(kafka, tmp_path, DYNAMIC)
    pair.same("format", "-t", CLUSTER, "-I", VOTERS)
    metas = [
        MetaProperties.parse((directory / "a" / "meta.properties").read_bytes(), "")
        for directory in (pair.theirs, pair.ours)
    ]
    assert metas[0] == metas[1]
    assert str(metas[0].directory_id) == DIRECTORY_1
