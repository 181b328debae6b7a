"""The importer, and the schemas it made: every fact of the published jars, none of the prose.

Upstream's schemas are read here by other means than the importer's (``facts`` below), so that a
fact lost or bent on the way shows.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftspec.codegen.importer import (
    ImportReport,
    SpecImportError,
    fields_by_path,
    import_jars,
    module_of,
)
from kraftspec.codegen.versions import Versions
from kraftspec.specs import kafka_release, specs_root

KAFKA = specs_root() / "kafka"
RELEASE = kafka_release()
KafkaJar = Callable[[str, str], Path]  # (artifact, release), from conftest.py
# Module: (messages, (message, version) pairs) of Apache Kafka 4.4.0, counted in its jars.
COUNTS = {
    "clients": (203, 640),
    "group-coordinator": (44, 52),
    "metadata": (27, 38),
    "storage": (5, 5),
    "share-coordinator": (4, 4),
    "transaction-coordinator": (2, 3),
    "raft": (1, 2),
}
# What KRaft itself speaks and stores: each field is documented in our own words.
KRAFT = (
    *(
        f"{rpc}{half}"
        for rpc in (
            "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot",
            "DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "ApiVersions",
        )
        for half in ("Request", "Response")
    ),
    "RequestHeader", "ResponseHeader", "LeaderChangeMessage", "SnapshotHeaderRecord",
    "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord", "QuorumStateData",
    "EndTxnMarker", "ControlRecordTypeSchema",
)  # fmt: skip


def load(path: Path) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return spec


def pairs(path: Path) -> int:
    return len(Versions.parse(load(path)["validVersions"]))


def upstream(jar: Path) -> dict[str, dict[str, Any]]:
    """Read a jar's schemas by message name, dropping the lines that are comments."""
    specs = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.search(r"(^|/)(message|metadata)/\w+\.json$", name):
                lines = archive.read(name).decode().splitlines()
                text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
                # DescribeProducersRequest of 2.8 ends with brackets too many.
                spec, _ = json.JSONDecoder().raw_decode(text.lstrip())
                specs[spec["name"]] = spec
    return specs


def facts(entry: Any) -> Any:
    """Return a spec as nested tuples of what it means, whatever way it is written."""
    if isinstance(entry, list):
        return tuple(facts(inner) for inner in entry)
    if not isinstance(entry, dict):
        return entry
    meant = {key: facts(value) for key, value in entry.items() if key != "about"}
    if "validVersions" not in meant:  # A field or a common struct.
        meant["versions"] = meant.get("versions", meant.get("taggedVersions"))
        default = meant.get("default")
        if isinstance(default, bool):
            default = "true" if default else "false"
        meant["default"] = None if default is None else str(default)
        if "tag" in meant:
            meant["tag"] = int(meant["tag"])
    elif meant["validVersions"] != "none":
        meant.setdefault("flexibleVersions", "none")  # Before 3.0 it could be left out.
    for flag in ("ignorable", "mapKey", "zeroCopy", "latestVersionUnstable"):
        meant[flag] = meant.get(flag, False) in (True, "true")
    return tuple(sorted(meant.items(), key=lambda item: item[0]))


def test_counts() -> None:
    actual = {
        module.name: (
            len(list(module.glob("*.json"))),
            sum(pairs(path) for path in module.glob("*.json")),
        )
        for module in KAFKA.iterdir()
        if module.is_dir()
    }
    assert actual == COUNTS
    assert [sum(column) for column in zip(*COUNTS.values(), strict=True)] == [286, 744]


def test_flexible_pairs() -> None:
    flexible = 0
    for path in KAFKA.glob("*/*.json"):
        spec = load(path)
        common = Versions.parse(spec["validVersions"]) & Versions.parse(
            spec.get("flexibleVersions", "none")
        )
        flexible += len(common)
    assert flexible == 445


def test_kinds_of_fields() -> None:
    count: Counter[str] = Counter()
    for path in KAFKA.glob("*/*.json"):
        spec = load(path)
        for _, field in fields_by_path(spec):
            count["fields"] += 1
            count[field["type"]] += 1
            count.update(key for key in ("tag", "mapKey", "ignorable", "zeroCopy") if key in field)
        count["commonStructs"] += len(spec.get("commonStructs", ()))
        count["unstable"] += "latestVersionUnstable" in spec
    named = {key: count[key] for key in ("fields", "tag", "mapKey", "zeroCopy", "commonStructs")}
    assert named == {"fields": 2076, "tag": 65, "mapKey": 79, "zeroCopy": 5, "commonStructs": 46}
    types = {key: count[key] for key in ("uint16", "uint32", "float64", "records", "uuid", "bytes")}
    assert types == {
        "uint16": 18, "uint32": 1, "float64": 3, "records": 4, "uuid": 88, "bytes": 30,
    }  # fmt: skip
    assert count["[]uuid"] == 9
    assert count["ignorable"] == 179
    assert count["unstable"] == 1


@pytest.mark.parametrize("message", KRAFT)
def test_kraft_messages_are_documented(message: str) -> None:
    (path,) = KAFKA.glob(f"*/{message}.json")
    abouts = {name: field.get("about", "") for name, field in fields_by_path(load(path))}
    assert [name for name, about in abouts.items() if not re.fullmatch(r"\S.*\S\.", about)] == []


def test_others_carry_no_prose() -> None:
    prose = [
        path.stem
        for path in KAFKA.glob("*/*.json")
        if path.stem not in KRAFT and '"about"' in path.read_text("utf-8")
    ]
    assert prose == []


@pytest.mark.kafka
@pytest.mark.parametrize("module", COUNTS)
def test_every_fact_survives(module: str, kafka_jar: KafkaJar) -> None:
    theirs = upstream(kafka_jar(f"kafka-{module}", RELEASE))
    ours = {path.stem: load(path) for path in (KAFKA / module).glob("*.json")}
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if facts(ours[name]) != facts(theirs[name])] == []


@pytest.mark.kafka
def test_no_sentence_is_upstreams(kafka_jar: KafkaJar) -> None:
    def sentences(spec: dict[str, Any]) -> set[str]:
        return {
            re.sub(r"\W+", " ", field["about"]).strip().lower()
            for _, field in fields_by_path(spec)
            if "about" in field
        }

    theirs = {
        sentence
        for module in COUNTS
        for spec in upstream(kafka_jar(f"kafka-{module}", RELEASE)).values()
        for sentence in sentences(spec)
    }
    ours = {text for path in specs_root().glob("*/**/*.json") for text in sentences(load(path))}
    assert len(theirs) > 500
    assert len(ours) > 100
    assert theirs & ours == set()


@pytest.mark.kafka
def test_a_second_import_changes_nothing(kafka_jar: KafkaJar, tmp_path: Path) -> None:
    shutil.copytree(KAFKA, tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*.json")}
    report = import_jars([kafka_jar(f"kafka-{module}", RELEASE) for module in COUNTS], tmp_path)
    assert (report.added, report.changed, report.removed) == ((), (), ())
    assert len(report.unchanged) == 286
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*.json")} == before


@pytest.mark.kafka
def test_the_next_release(kafka_jar: KafkaJar, tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    shutil.copy(KAFKA / "clients" / "ApiVersionsResponse.json", tmp_path / "clients")
    import_jars([kafka_jar("kafka-clients", "4.3.1")], tmp_path)
    report = import_jars([kafka_jar("kafka-clients", "4.4.0")], tmp_path)
    rpcs = [
        path
        for path in (tmp_path / "clients").glob("*.json")
        if load(path)["type"] in ("request", "response") and pairs(path)
    ]
    assert (len(rpcs), sum(pairs(path) for path in rpcs)) == (182, 618)
    assert "clients/UnregisterControllerRequest.json" in report.added
    assert "clients/ApiVersionsRequest.json" in report.changed
    assert report.removed == ()
    theirs = upstream(kafka_jar("kafka-clients", "4.4.0"))
    for name, spec in theirs.items():
        assert facts(load(tmp_path / "clients" / f"{name}.json")) == facts(spec), name
    # Our own words came through the change.
    kept = dict(fields_by_path(load(tmp_path / "clients" / "ApiVersionsResponse.json")))
    assert kept["ApiKeys.MinVersion"]["about"] == "Lowest version that the node answers."


# ---- made-up jars, no Java needed -----------------------------------------------------------

TOY = """
// A licence, which stays behind.
{
  "flexibleVersions": "1+", "validVersions": "0-2", // Comments may follow a value,
  "name": "ToyRequest", "type": "request", "apiKey": 7, "latestVersionUnstable": false,
  "listeners": "broker",
  "fields": [
    { "type": "string", "name": "Url", "versions": "0+", "default": "http://x//y",
      "about": "Theirs." },
    { "name": "Tagged", "type": "int64", "taggedVersions": "1+", "tag": "0", "default": -1 },
    { "name": "Ratio", "type": "float64", "versions": "0+", "default": 1.50, "ignorable": true },
    { "name": "Flag", "type": "bool", "versions": "0+", "default": true, "ignorable": false },
    { "name": "None", "type": "string", "versions": "0+", "nullableVersions": "0+",
      "default": null },
    { "name": "Null", "type": "string", "versions": "0+", "nullableVersions": "0+",
      "default": "null" },
    { "name": "Rows", "type": "[]Row", "versions": "0+",
      "fields": { "about": "Theirs.", "name": "Key", "type": "int32", "versions": "0+" } }
  ],
  "commonStructs": [
    { "versions": "0+", "name": "Spare",
      "fields": [{ "name": "Key", "type": "int32", "versions": "0+", "default": "0x7f" }] }
  ]
}
"""

TOY_NORMAL = """{
  "apiKey": 7,
  "type": "request",
  "name": "ToyRequest",
  "validVersions": "0-2",
  "flexibleVersions": "1+",
  "listeners": ["broker"],
  "fields": [
    {"name": "Url", "type": "string", "versions": "0+", "default": "http://x//y"},
    {
      "name": "Tagged",
      "type": "int64",
      "versions": "1+",
      "taggedVersions": "1+",
      "tag": 0,
      "default": "-1"
    },
    {"name": "Ratio", "type": "float64", "versions": "0+", "default": "1.50", "ignorable": true},
    {"name": "Flag", "type": "bool", "versions": "0+", "default": "true"},
    {"name": "None", "type": "string", "versions": "0+", "nullableVersions": "0+"},
    {
      "name": "Null",
      "type": "string",
      "versions": "0+",
      "nullableVersions": "0+",
      "default": "null"
    },
    {
      "name": "Rows",
      "type": "[]Row",
      "versions": "0+",
      "fields": [
        {"name": "Key", "type": "int32", "versions": "0+"}
      ]
    }
  ],
  "commonStructs": [
    {
      "name": "Spare",
      "versions": "0+",
      "fields": [
        {"name": "Key", "type": "int32", "versions": "0+", "default": "0x7f"}
      ]
    }
  ]
}
"""


def jar(directory: Path, *schemas: str, name: str = "kafka-toys-1.0.jar") -> Path:
    path = directory / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/other.json", "{}")
        for number, schema in enumerate(schemas):
            archive.writestr(f"common/message/File{number}.json", schema)
    return path


def test_the_normal_form(tmp_path: Path) -> None:
    report = import_jars([jar(tmp_path, TOY)], tmp_path / "out")
    assert report == ImportReport(("toys/ToyRequest.json",), (), (), ())
    # Named after the message, whatever the file in the jar is called.
    written = tmp_path / "out" / "toys" / "ToyRequest.json"
    assert written.read_bytes() == TOY_NORMAL.encode()
    again = import_jars([jar(tmp_path, TOY)], tmp_path / "out")
    assert again == ImportReport((), (), ("toys/ToyRequest.json",), ())


def test_what_older_releases_wrote_otherwise(tmp_path: Path) -> None:
    older = TOY.replace('"flexibleVersions": "1+", ', "").rstrip() + "\n]}\n"
    older = older.replace('"ignorable": true', '"ignorable": "true"')
    older = older.replace('"listeners": "broker"', '"listeners": ["zkBroker", "broker"]')
    import_jars([jar(tmp_path, older)], tmp_path / "out")
    written = (tmp_path / "out" / "toys" / "ToyRequest.json").read_text("utf-8")
    assert written == TOY_NORMAL.replace('"flexibleVersions": "1+"', '"flexibleVersions": "none"')
    only = TOY.replace('"listeners": "broker"', '"listeners": "zkBroker"')
    import_jars([jar(tmp_path, only)], tmp_path / "out")
    assert "listeners" not in load(tmp_path / "out" / "toys" / "ToyRequest.json")


def test_our_words_are_kept_by_path(tmp_path: Path) -> None:
    out = tmp_path / "out"
    import_jars([jar(tmp_path, TOY)], out)
    written = out / "toys" / "ToyRequest.json"
    spec = load(written)
    for path, field in fields_by_path(spec):
        field["about"] = f"{path}, in our words."
    written.write_text(json.dumps(spec), "utf-8")

    grown = TOY.replace('"0-2"', '"0-3"').replace('"name": "Flag"', '"name": "Renamed"')
    assert import_jars([jar(tmp_path, grown)], out).changed == ("toys/ToyRequest.json",)
    kept = {path: field.get("about") for path, field in fields_by_path(load(written))}
    assert kept.pop("Renamed") is None
    assert kept == {path: f"{path}, in our words." for path in kept}
    assert {"Rows.Key", "<Spare>.Key"} < kept.keys()
    assert import_jars([jar(tmp_path, grown)], out).changed == ()


def test_what_upstream_dropped_is_reported_and_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    second = TOY.replace("ToyRequest", "GoneRequest")
    import_jars([jar(tmp_path, TOY, second)], out)
    report = import_jars([jar(tmp_path, TOY)], out)
    assert report.removed == ("toys/GoneRequest.json",)
    assert (out / "toys" / "GoneRequest.json").exists()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (TOY.replace('"tag": "0"', '"tga": "0"'), r"File0\.json: ToyRequest\.Tagged: .* key tga"),
        (TOY.replace('"listeners"', '"listener"'), r"File0\.json: unknown key listener"),
        (TOY.replace('"0-2",', '"0-2"'), r"File0\.json:5:\d+: Expecting ',' delimiter"),
        ("[]", r"File0\.json: a message is a JSON object"),
        ("{}", r"File0\.json: a message is a JSON object"),
    ],
)
def test_a_schema_that_is_refused(schema: str, message: str, tmp_path: Path) -> None:
    good = jar(tmp_path, TOY, name="kafka-good-1.0.jar")
    with pytest.raises(SpecImportError, match=message):
        import_jars([good, jar(tmp_path, schema)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_jar_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecImportError, match=r"expected kafka-<module>-<version>\.jar"):
        module_of(Path("toys.jar"))
    with pytest.raises(SpecImportError, match="no schema under"):
        import_jars([jar(tmp_path)], tmp_path / "out")
    broken = tmp_path / "kafka-broken-1.0.jar"
    broken.write_bytes(b"half a jar")
    with pytest.raises(SpecImportError, match="is the download complete"):
        import_jars([broken], tmp_path / "out")
    toys = jar(tmp_path, TOY)
    with pytest.raises(SpecImportError, match=r"toys/ToyRequest\.json was already imported"):
        import_jars([toys, toys], tmp_path / "out")


def test_module_names() -> None:
    assert module_of(Path("x/kafka-group-coordinator-4.3.1.jar")) == "group-coordinator"
    assert module_of(Path("kafka-clients-4.4.0-rc1.jar")) == "clients"
    assert module_of(Path("kafka_2.13-3.8.1.jar")) == "core"
