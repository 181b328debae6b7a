"""Reading and checking files: good ones fast, bad ones in full; what only files can get wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kraftspec.codegen import raw_models
from kraftspec.codegen.check import check_paths, spec_files
from kraftspec.codegen.diagnostics import RULES, Diagnostic, SpecErrors
from kraftspec.codegen.explain import explain, validator
from kraftspec.codegen.raw.message import FieldSpec, MessageSpec, StructSpec
from kraftspec.codegen.reader import NOT_MESSAGES, check_text, read_message
from kraftspec.specs import specs_root

GOOD = '{"type": "data", "name": "Sample", "validVersions": "0", "flexibleVersions": "0+"}\n'


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


# ---- reading ----------------------------------------------------------------------------------


def test_all_specs_are_good() -> None:
    report = check_paths()
    assert report.lines == []
    assert report.ok
    assert report.files == len(spec_files(specs_root())) > 280


def test_the_thorough_reader_agrees_with_the_fast_one() -> None:
    for path in spec_files(specs_root()):
        message, diagnostics = explain(path.read_bytes(), path.name)
        assert diagnostics == []
        assert message == read_message(path)


def test_reading_a_good_spec_needs_no_jsonschema_and_checking_it_does() -> None:
    read = "[read_message(path) for path in spec_files(specs_root())]"
    for done, expected in ((read, False), ("check_paths()", True)):
        code = (
            "import sys; from kraftspec.codegen.check import check_paths, spec_files; "
            "from kraftspec.codegen.reader import read_message; "
            f"from kraftspec.specs import specs_root; {done}; "
            f"assert ('jsonschema' in sys.modules) is {expected}"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


def test_comments(tmp_path: Path) -> None:
    text = '// one\n{"type": "data", // two\n"name": "Sample", "validVersions": "0", // "three"\n'
    text += '"flexibleVersions": "0+", "fields": [{"name": "A", "type": "string", '
    text += '"versions": "0+", "about": "http://not/a/comment", "default": "//"}]}//'
    message = read_message(write(tmp_path / "Sample.json", text))
    (field,) = message.top.fields
    assert (field.about, field.default) == ("http://not/a/comment", "//")


def test_single_values_stand_for_lists() -> None:
    text = {
        "apiKey": 7,
        "type": "request",
        "name": "SampleRequest",
        "validVersions": "0",
        "flexibleVersions": "0+",
        "listeners": "broker",
        "fields": {"name": "Voter", "type": "Voter", "versions": "0+"},
        "commonStructs": {
            "name": "Voter",
            "versions": "0+",
            "fields": {"name": "Port", "type": "int32", "taggedVersions": "0+", "tag": "0"},
        },
    }
    message, diagnostics = check_text(json.dumps(text), "SampleRequest.json")
    assert diagnostics == []
    assert message is not None
    assert message.listeners == ("broker",)
    assert [field.tag for field in message.structs["Voter"].fields] == [0]
    assert message.structs["Voter"].fields[0].versions.open_ended  # It stands for taggedVersions.


def test_mistakes_in_single_values_have_their_places() -> None:
    text = '{"type": "data", "name": "S", "validVersions": "0", "flexibleVersions": "0+",\n'
    text += ' "fields": {"name": "A", "type": "uuid", "versions": "0+", "nullableVersions": "0+"}}'
    _, diagnostics = check_text(text, "S.json")
    assert [(d.line, d.column, d.rule) for d in diagnostics] == [(2, 80, "nullable-type")]


def test_bare_null_is_no_default() -> None:
    text = '{"type": "data", "name": "S", "validVersions": "0", "flexibleVersions": "0+", "fields":'
    text += '[{"name": "A", "type": "string", "versions": "0+", "default": null},'
    text += ' {"name": "B", "type": "string", "versions": "0+", "nullableVersions": "0+",'
    text += ' "default": "null"}]}'
    message, _ = check_text(text, "S.json")
    assert message is not None
    assert [field.default for field in message.top.fields] == ["", None]


def test_a_removed_message_keeps_its_name_and_key() -> None:
    text = '{"apiKey": 4, "type": "request", "name": "OldRequest", "validVersions": "none",'
    text += '"fields": [{"name": "A", "type": "B", "versions": "0+", "fields": []}]}'
    message, diagnostics = check_text(text, "OldRequest.json")
    assert diagnostics == []
    assert message is not None
    assert (message.name, message.api_key, message.top.fields) == ("OldRequest", 4, ())
    assert message.structs == {}
    assert message.flexible_versions.empty
    # What belongs to a living request only is passed over in a removed record.
    removed = text.replace("request", "metadata")[:-1]
    _, diagnostics = check_text(
        f'{removed}, "listeners": ["broker"], "latestVersionUnstable": true}}', "OldRequest.json"
    )
    assert diagnostics == []


def test_structs_come_in_order_of_use() -> None:
    message = read_message(specs_root() / "kafka" / "clients" / "FetchRequest.json")
    assert list(message.structs) == [
        "ReplicaState", "FetchTopic", "FetchPartition", "ForgottenTopic",
    ]  # fmt: skip


@pytest.mark.kafka
def test_the_exercise_schemas_of_kafka(tmp_path: Path) -> None:
    """Five messages that upstream made to try a generator with, out of the client's test jar."""
    repository = Path(os.environ.get("MAVEN_REPOSITORY", Path.home() / ".m2" / "repository"))
    jar = repository / "org/apache/kafka/kafka-clients/4.3.1/kafka-clients-4.3.1-test.jar"
    if not jar.exists():
        artifact = "org.apache.kafka:kafka-clients:4.3.1:jar:test"
        command = ["mvn", "-q", "-B", f"-Dmaven.repo.local={repository}", "dependency:get"]
        command += [f"-Dartifact={artifact}", "-Dtransitive=false"]
        subprocess.run(command, check=True)
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.startswith("common/message/")]
        archive.extractall(tmp_path, names)
    report = check_paths([tmp_path])
    assert (report.files, report.lines) == (5, [])


CHANGES = st.tuples(
    st.floats(0, 1),  # where, as a part of the text
    st.integers(0, 30),  # how much is cut out there
    st.sampled_from(
        ["", "{", "}", "[", "]", ",", '"', "...", "TBD", "null", '"type": 5,', '"fields": {},']
    ),
)


@given(st.sampled_from(spec_files(specs_root())), st.lists(CHANGES, min_size=1, max_size=3))
def test_any_text_gives_a_message_or_mistakes(
    path: Path, changes: list[tuple[float, int, str]]
) -> None:
    text = path.read_text("utf-8")
    for part, count, insert in changes:
        at = int(part * len(text))
        text = text[:at] + insert + text[at + count :]
    message, diagnostics = check_text(text, path.name)
    assert (message is None) == bool(diagnostics)
    assert len({(d.line, d.column, d.rule, d.message) for d in diagnostics}) == len(diagnostics)


# ---- checking -----------------------------------------------------------------------------------


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    report = check_paths([tmp_path / "Gone.json"])
    (diagnostic,) = report.diagnostics
    assert (diagnostic.line, diagnostic.column, diagnostic.rule) == (1, 1, "file-readable")
    with pytest.raises(SpecErrors, match=r"Gone\.json:1:1: .*\[file-readable\]"):
        read_message(tmp_path / "Gone.json")


def test_a_file_is_called_after_its_message(tmp_path: Path) -> None:
    report = check_paths([write(tmp_path / "Other.json", GOOD)])
    assert [diagnostic.rule for diagnostic in report.diagnostics] == ["file-name"]
    # Upstream breaks the rule once.
    record = GOOD.replace("Sample", "ZkMigrationStateRecord")
    assert check_paths([write(tmp_path / "ZkMigrationRecord.json", record)]).ok


def test_names_are_unique_in_a_set(tmp_path: Path) -> None:
    write(tmp_path / "one" / "Sample.json", GOOD)
    write(tmp_path / "two" / "Sample.json", GOOD)
    report = check_paths([tmp_path])
    assert [diagnostic.rule for diagnostic in report.diagnostics] == ["message-name-unique"]
    assert report.diagnostics[0].path.endswith("two/Sample.json")
    assert check_paths([tmp_path / "one", tmp_path / "two"]).ok  # Two sets.


def test_names_that_one_module_would_hold(tmp_path: Path) -> None:
    write(tmp_path / "SAMPLE.json", GOOD.replace("Sample", "SAMPLE"))
    write(tmp_path / "Sample.json", GOOD)
    [diagnostic] = check_paths([tmp_path]).diagnostics
    assert (diagnostic.rule, Path(diagnostic.path).name) == ("message-name-unique", "Sample.json")
    assert diagnostic.message.startswith(
        'message "Sample" would be in one module with "SAMPLE" of '
    )


def test_sets_of_ours_may_share_names() -> None:
    votes = list(specs_root().rglob("VoteRequest.json"))
    assert len(votes) == 4  # kafka and three drafts
    assert check_paths(votes).ok


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    for name in NOT_MESSAGES:
        write(tmp_path / name, "[]")
    write(tmp_path / "README.md", "no spec")
    assert check_paths([tmp_path]).files == 0


def test_all_mistakes_of_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = GOOD.replace('"data"', '"message"').replace('"0+"', '"0-1"')
    write(tmp_path / "specs" / "Sample.json", bad)
    write(tmp_path / "specs" / "Other.json", GOOD.replace("Sample", "Other").replace("}", ""))
    monkeypatch.chdir(tmp_path)
    report = check_paths([Path("specs")])
    assert not report.ok
    assert report.lines == [
        "specs/Other.json:1:81: at the end of the text { of 1:1 is not closed [json-unclosed]; "
        "end with }",
        'specs/Sample.json:1:10: "message" is no type of message [message-type-known]; '
        'write "data"',
        "specs/Sample.json:1:81: flexibleVersions 0-1 ends [flexible-versions-open]; "
        'write "0+" or "none"',
    ]
    assert report.to_json() == {
        "files": 2,
        "ok": False,
        "diagnostics": [
            {"path": d.path, "line": d.line, "column": d.column, "rule": d.rule,
             "message": d.message, "mend": d.mend}
            for d in report.diagnostics
        ],
        "notes": [],
    }  # fmt: skip
    assert json.loads(json.dumps(report.to_json())) == report.to_json()


def test_a_bare_null_is_a_note_and_no_mistake(tmp_path: Path) -> None:
    field = (
        '{"name": "A", "type": "string", "versions": "0+", "nullableVersions": "0+", "default": '
    )
    for name, default in (("Bare", "null"), ("Quoted", '"null"')):
        fields = f'"0+", "fields": [{field}{default}}}]}}'
        text = GOOD.replace("Sample", name).replace('"0+"}', fields)
        assert default in text
        write(tmp_path / f"{name}.json", text)
    report = check_paths([tmp_path])
    assert report.ok
    (note,) = report.notes
    assert (Path(note.path).name, note.rule) == ("Bare.json", "bare-null")
    assert (
        (tmp_path / "Bare.json")
        .read_text("utf-8")
        .splitlines()[note.line - 1][note.column - 1 :]
        .startswith("null")
    )
    assert report.lines == [str(note)]


def test_a_mistake_is_one_printable_line() -> None:
    text = GOOD.replace("Sample", "Sa\\nm\\u0007p\\u2028le")
    _, diagnostics = check_text(text, "S.json")
    assert [d.rule for d in diagnostics] == ["message-name"]
    assert all(str(d).isprintable() and len(str(d).splitlines()) == 1 for d in diagnostics)
    assert str(Diagnostic("a\nb", 1, 2, "r", "m\u202ee", "d")) == r"a\nb:1:2: m\u202ee [r]; d"


# ---- the schema language ----------------------------------------------------------------------

MESSAGE_KEYS = [
    "apiKey", "type", "name", "validVersions", "deprecatedVersions", "flexibleVersions",
    "listeners", "latestVersionUnstable", "fields", "commonStructs",
]  # fmt: skip
FIELD_KEYS = [
    "name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default",
    "ignorable", "mapKey", "entityType", "about", "flexibleVersions", "zeroCopy", "fields",
]  # fmt: skip
STRUCT_KEYS = ["name", "versions", "fields"]


def test_the_schema_lists_the_keys_in_normal_order() -> None:
    schema = json.loads((specs_root() / "message.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == MESSAGE_KEYS
    assert list(schema["$defs"]["field"]["properties"]) == FIELD_KEYS
    assert list(schema["$defs"]["struct"]["properties"]) == STRUCT_KEYS
    for item in (schema, schema["$defs"]["field"], schema["$defs"]["struct"]):
        assert item["additionalProperties"] is False
        for key, subschema in item["properties"].items():
            assert len(subschema["description"]) > 20, key


def test_the_raw_models_have_the_same_keys() -> None:
    for model, keys in (
        (MessageSpec, MESSAGE_KEYS),
        (FieldSpec, FIELD_KEYS),
        (StructSpec, STRUCT_KEYS),
    ):
        assert {field.encode_name for field in msgspec.structs.fields(model)} == set(keys)
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert({"name": "A", "type": "data", "versions": "0", "validVersions": "0",
                             "fields": [], "nullableVersion": "0"}, model)  # fmt: skip


def test_the_schema_accepts_every_good_spec() -> None:
    for path in spec_files(specs_root()):
        assert list(validator().iter_errors(json.loads(path.read_text("utf-8")))) == []


def test_rules_are_sentences() -> None:
    for rule, sentence in RULES.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule)
        assert re.fullmatch(r"[^.]+(\.json|\.\.\.|[^.])*\.", sentence)


def test_raw_models_say_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.schema.json", '{"title": "A"}')
    monkeypatch.setattr(raw_models, "ROOT", tmp_path)
    monkeypatch.setattr(
        raw_models, "INPUTS", {"a.schema.json": "raw/a.py", "gone.json": "raw/b.py"}
    )
    monkeypatch.setattr(raw_models, "_need_generator", lambda: None)
    monkeypatch.setattr(raw_models, "_render", lambda schema, name: f"# {schema.name} {name}\n")
    assert raw_models.main(["--check"]) == 1
    assert "raw/a.py: stale" in capsys.readouterr().out
    assert not (tmp_path / "raw").exists()
    assert raw_models.main([]) == 0
    assert (tmp_path / "raw/a.py").read_text("utf-8") == "# a.schema.json a.schema.json\n"
    assert (tmp_path / "raw/__init__.py").exists()
    assert raw_models.main(["--check"]) == 0
    assert raw_models.main(["--chek"]) == 2


def test_the_generator_of_raw_models_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_models, "version", lambda name: "0.0.1")
    with pytest.raises(RuntimeError, match=rf"=={re.escape(raw_models.GENERATOR_VERSION)}$"):
        raw_models.regenerate(check=True)


@pytest.mark.parametrize(
    ("field", "mend"),
    [
        ('"name": "A", "type": "string[]"', 'write "[]string"'),
        ('"name": "A", "type": "Line[]"', 'write "[]Line"'),
        ('"name": "A", "type": "int[]"', 'write "[]int32"'),
        ('"name": "A", "type": "float"', 'write "float64"'),
        ('"name": "A", "type": "[]str"', 'write "string"'),
        ('"name": "order_id", "type": "int32"', 'write "OrderId": use letters'),
        ('"name": "9", "type": "int32"', "use letters and digits, a letter first"),
        ('"name": "A", "type": "[]Lnie"', 'write "Line", or give the field "fields"'),
    ],
)
def test_a_remedy_names_what_was_meant(field: str, mend: str) -> None:
    text = '{"type": "data", "name": "S", "validVersions": "0", "flexibleVersions": "0+", "fields":'
    text += f'[{{{field}, "versions": "0+"}}, {{"name": "B", "type": "Line", "versions": "0+"}}],'
    text += '"commonStructs": [{"name": "Line", "versions": "0+", "fields": ['
    text += '{"name": "X", "type": "int8", "versions": "0+"}]}]}'
    _, diagnostics = check_text(text, "S.json")
    assert diagnostics[0].mend.startswith(mend), diagnostics
