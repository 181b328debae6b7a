"""The metadata image: what Kafka's own classes make of the same log, at many offsets."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kraftspec.conformance.cluster import RELEASE, RELEASES
from kraftspec.fastpath import encode_batch, encode_control_batch
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.pipeline.metadata import TABLES, image_tables, read_image
from kraftspec.pipeline.report import DamagedLogError
from kraftspec.reference.metadata.image import ImageError, MetadataImage

from .metadata_corpus import DATA, oracle, read_gzip, run, run_java
from .metadata_writer import Writer, frame, write_log

SEGMENT = "00000000000000000000.log"
RECORDS = {
    "TopicRecord": "topics",
    "PartitionRecord": "partitions",
    "RegisterBrokerRecord": "brokers",
    "RegisterControllerRecord": "controllers",
    "ConfigRecord": "configs",
    "FeatureLevelRecord": "features",
    "ClientQuotaRecord": "client_quotas",
    "AccessControlEntryRecord": "acls",
    "UserScramCredentialRecord": "scram_credentials",
    "ProducerIdsRecord": "producer_ids",
    "DelegationTokenRecord": "delegation_tokens",
}
# As Kafka's own tools print them.
TEXT: dict[tuple[str, str], dict[int, str]] = {
    ("configs", "resourceType"): {2: "TOPIC", 4: "BROKER"},
    ("acls", "resourceType"): {2: "TOPIC", 3: "GROUP"},
    ("acls", "patternType"): {3: "LITERAL", 4: "PREFIXED"},
    ("acls", "operation"): {3: "READ", 4: "WRITE"},
    ("acls", "permissionType"): {2: "DENY", 3: "ALLOW"},
    ("scram_credentials", "mechanism"): {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
}
LEFT_OUT = {
    "client_quotas": {"remove"},
    "scram_credentials": {"salt", "storedKey", "serverKey"},
    "producer_ids": {"brokerId", "brokerEpoch"},
}


def value_of(value: Any) -> Any:
    """A value of a message as Arrow gives it back."""
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [value_of(item) for item in value]
    if hasattr(value, "__struct_fields__"):
        return fields_of(value)
    return value


def fields_of(record: Any) -> dict[str, Any]:
    names = {camel(attr): attr for attr in record.__struct_fields__}
    names.pop("unknownTaggedFields", None)
    return {name: value_of(getattr(record, attr)) for name, attr in names.items()}


def camel(attr: str) -> str:
    head, *rest = attr.split("_")
    return head + "".join(part.capitalize() for part in rest)


def kafkas(image: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows that the records of Kafka's image are, by table."""
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in RECORDS.values()}
    topics: dict[str, str] = {}
    for one in image["records"]:
        cls: type[Message] = getattr(kafka, one["type"])
        row = fields_of(cls.from_json(one["record"], one["version"]))
        table = RECORDS[one["type"]]
        if table == "topics":
            topics[row["topicId"]] = row["name"]
        if table == "partitions":
            row["topicName"] = topics[row["topicId"]]
            row["eligibleLeaderReplicas"] = row["eligibleLeaderReplicas"] or []
            row["lastKnownElr"] = row["lastKnownElr"] or []
        row = {name: value for name, value in row.items() if name not in LEFT_OUT.get(table, ())}
        for name in row:
            if (table, name) in TEXT:
                row[name] = TEXT[table, name][row[name]]
        tables[table].append(row)
    return tables


def sort(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Rows in some order; so are lists of structs and of directories, which are sets in Kafka."""
    result = []
    for row in rows:
        ordered = {
            name: sorted(value, key=repr)
            if name in ("logDirs", "cordonedLogDirs", "endPoints", "features", "entity") and value
            else value
            for name, value in row.items()
        }
        result.append(repr(sorted(ordered.items())))
    return sorted(result)


def assert_kafkas(image: MetadataImage, expected: dict[str, Any]) -> None:
    actual = image_tables(image)
    for name, rows in kafkas(expected).items():
        assert sort(actual[name].to_pylist()) == sort(rows), (name, expected["asOf"])


def test_images_of_a_real_log_are_kafkas() -> None:
    images = read_gzip("images.json.gz")
    assert len(images) > 60
    for expected in images:
        assert_kafkas(read_image(DATA, expected["asOf"]), expected)
    filled = kafkas(images[-1])
    assert all(filled[name] for name in filled if name != "delegation_tokens")


def test_the_log_alone_gives_the_same_as_checkpoints_do(tmp_path: Path) -> None:
    for path in DATA.glob("*.log"):
        shutil.copy(path, tmp_path)
    for expected in read_gzip("images.json.gz")[::5]:
        assert_kafkas(read_image(tmp_path, expected["asOf"]), expected)


@pytest.mark.kafka
def test_images_of_random_records_are_kafkas(tmp_path: Path) -> None:
    """What no quiet cluster writes: aborted transactions, old ways of fencing, tokens, ELR."""
    for seed in range(2):
        directory = tmp_path / str(seed)
        directory.mkdir()
        end = write_log(directory, Writer(seed).batches(150))
        offsets = range(1, end + 1, 11)
        for expected in oracle("images", directory, *offsets, end):
            assert_kafkas(read_image(directory, expected["asOf"]), expected)


@pytest.mark.kafka
def test_the_committed_images_are_kafkas() -> None:
    images = read_gzip("images.json.gz")
    answers = oracle("images", DATA, *(image["asOf"] for image in images))
    assert list(map(in_order, answers)) == list(map(in_order, images))


def in_order(image: dict[str, Any]) -> dict[str, Any]:
    """Return an image with its records sorted: Kafka's order of configs is that of a hash."""
    return image | {"records": sorted(image["records"], key=str)}


@pytest.mark.kafka
def test_a_cluster_of_now(tmp_path: Path) -> None:
    """The corpus is no happy accident: another cluster's log is read as well."""
    quorum = run(tmp_path, controllers=1, brokers=1, long=False)
    image = read_image(tmp_path)
    (expected,) = oracle("images", tmp_path, image.end_offset)
    assert_kafkas(image, expected)
    assert_quorum(image, quorum)
    assert {row.name for row in image.topics.values()} >= {"orders"}


def assert_quorum(image: MetadataImage, expected: dict[str, Any]) -> None:
    """The voters are those of DescribeQuorum."""
    voters = [
        {
            "id": row["voterId"],
            "directoryId": row["voterDirectoryId"],
            "port": row["endpoints"][0]["port"],
        }
        for row in image_tables(image, ["voters"])["voters"].to_pylist()
    ]
    assert voters == sorted(expected["voters"], key=lambda voter: voter["id"])
    assert image.kraft_version == 1
    assert image.epoch == expected["leaderEpoch"]


def test_the_voters_are_those_of_the_quorum() -> None:
    assert_quorum(read_image(DATA), json.loads((DATA / "voters.json").read_text()))


def test_the_leader_is_known_from_its_own_record(tmp_path: Path) -> None:
    shutil.copy(DATA / SEGMENT, tmp_path)
    (first,) = image_tables(read_image(tmp_path, 1), ["quorum"])["quorum"].to_pylist()
    assert (first["endOffset"], first["leaderEpoch"], first["epoch"]) == (1, 1, 1)
    assert first["leaderId"] in {3001, 3002, 3003}
    (none,) = image_tables(read_image(tmp_path, 0), ["quorum"])["quorum"].to_pylist()
    assert (none["endOffset"], none["leaderId"], none["timestamp"]) == (0, None, None)


TOPIC = kafka.TopicRecord(name="orders", topic_id=Uuid(b"t" * 16))


def test_transactions_count_when_they_end(tmp_path: Path) -> None:
    begin, end = kafka.BeginTransactionRecord(name="work"), kafka.EndTransactionRecord()
    write_log(tmp_path, [[begin, TOPIC], [kafka.AbortTransactionRecord()], [begin, TOPIC], [end]])
    topics = [len(read_image(tmp_path, offset).topics) for offset in range(7)]
    assert topics == [0, 0, 0, 0, 0, 0, 1]
    assert read_image(tmp_path, 5).transaction == "work"
    assert read_image(tmp_path).transaction is None


def test_schemas_do_not_depend_on_what_is_there() -> None:
    empty, full = image_tables(MetadataImage()), image_tables(read_image(DATA))
    assert tuple(empty) == tuple(full) == TABLES
    for name in TABLES:
        assert empty[name].schema == full[name].schema
        assert "_unknownTaggedFields" not in str(full[name].schema)
        assert empty[name].num_rows == (name == "quorum")
    with pytest.raises(ValueError, match="there is no table 'topic'; the tables are quorum, "):
        image_tables(MetadataImage(), ["topic"])


def test_offsets_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the log ends at offset \d+, before 999999"):
        read_image(DATA, 999_999)
    with pytest.raises(ValueError, match="as_of is an offset, not -1"):
        read_image(DATA, -1)
    segments = sorted(DATA.glob("*.log"))
    shutil.copy(segments[1], tmp_path)
    with pytest.raises(ValueError, match=r"goes on at offset \d+; 0 is missing, and no checkpoint"):
        read_image(tmp_path)
    for path in DATA.glob("*.checkpoint"):
        shutil.copy(path, tmp_path)
    last = read_gzip("images.json.gz")[-1]
    shutil.copy(segments[-1], tmp_path)
    assert_kafkas(read_image(tmp_path, last["asOf"]), last)
    # Between the checkpoints and this segment, records are gone.
    with pytest.raises(ValueError, match=r"the log ends at offset \d+, before"):
        read_image(tmp_path, int(segments[1].name[:20]) - 1)


def test_a_checkpoint_alone_is_an_image() -> None:
    path = sorted(DATA.glob("*.checkpoint"))[-1]
    image = read_image(path)
    assert image.end_offset == int(path.name[:20])
    (expected,) = [one for one in read_gzip("images.json.gz") if one["asOf"] == image.end_offset]
    assert_kafkas(image, expected)


def test_a_cut_checkpoint_is_refused(tmp_path: Path) -> None:
    path = sorted(DATA.glob("*.checkpoint"))[-1]
    footer = encode_control_batch(4, b"\x00" * 3, timestamp=0)
    data = path.read_bytes()
    (tmp_path / path.name).write_bytes(data[: -len(footer)])
    with pytest.raises(ValueError, match=r"the checkpoint is cut: it has no footer|truncated"):
        read_image(tmp_path)


def test_damage_and_what_does_not_fit_are_told_with_their_place(tmp_path: Path) -> None:
    write_log(tmp_path, [[kafka.NoOpRecord()], [kafka.RemoveTopicRecord()]])
    with pytest.raises(ImageError, match=r"0\.log, offset 1 \(RemoveTopicRecord\): .*no topic"):
        read_image(tmp_path)
    assert read_image(tmp_path, 1).end_offset == 1
    for value in (b"\x01\x63\x00", None):
        (tmp_path / SEGMENT).write_bytes(encode_batch([value], timestamps=0))
        with pytest.raises(ValueError, match=r"0\.log: record at offset 0.*(API key 99|no value)"):
            read_image(tmp_path)
    data = bytearray(encode_batch([b"\x01\x14\x00\x00"], timestamps=0))
    data[-1] ^= 1
    (tmp_path / SEGMENT).write_bytes(data)
    with pytest.raises(DamagedLogError, match=r"0\.log, byte 0: .*CRC"):
        read_image(tmp_path)


def test_an_image_is_of_one_log(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(DATA, tmp_path / name / "__cluster_metadata-0")
    (tmp_path / "orders-0").mkdir()
    shutil.copy(DATA / SEGMENT, tmp_path / "orders-0")
    with pytest.raises(ValueError, match=r"there are 2 metadata logs, .*__cluster_metadata-0"):
        read_image([tmp_path / "a", tmp_path / "b", tmp_path])
    with pytest.raises(ValueError, match="no metadata log here: no __cluster_metadata-0"):
        read_image(tmp_path / "orders-0")
    assert read_image(tmp_path / "a").end_offset == read_image(DATA).end_offset


@pytest.mark.kafka
@pytest.mark.parametrize(
    "release",
    [pytest.param(one, marks=() if one == RELEASE else pytest.mark.soak) for one in RELEASES],
)
def test_the_file_of_ks_2026_08_shows_the_fault(release: str) -> None:
    folder = Path(__file__).resolve().parents[2] / "findings/embargoed/KS-2026-08"
    done = run_java(folder / "AbortedTransaction.java", release=release)
    assert (done.returncode, done.stdout.count("aborted, after")) == (1, 2), done.stderr


def test_no_log_is_too_strange(tmp_path: Path) -> None:
    """Records that are bent, left out, doubled and swapped: an image, or an error that says why."""
    draw = random.Random(3)
    accepted = refused = 0
    values = [frame(record) for batch in Writer(5).batches(60) for record in batch]
    for _ in range(60):
        bent = list(values)
        at, other = draw.randrange(len(bent)), draw.randrange(len(bent))
        kind = draw.randrange(4)
        if kind == 0:
            record = bytearray(bent[at])
            record[draw.randrange(len(record))] = draw.randrange(256)
            bent[at] = bytes(record)
        elif kind == 1:
            del bent[at]
        elif kind == 2:
            bent.insert(at, bent[other])
        else:
            bent[at], bent[other] = bent[other], bent[at]
        (tmp_path / SEGMENT).write_bytes(encode_batch(bent, timestamps=0))
        try:
            image = read_image(tmp_path)
        except ValueError as error:
            assert SEGMENT in str(error)  # noqa: PT017 - both ends are right
            refused += 1
        else:
            assert image.end_offset == len(bent)
            accepted += 1
    assert accepted > 10
    assert refused > 10
