"""What a generated module says: types, defaults, facts and docstrings. Expectations by hand."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from kraftspec.codegen.generate import MessageSet, generate
from kraftspec.codegen.python_target import literal, render_enums, render_package
from kraftspec.codegen.reader import read_message
from kraftspec.fastpath.types import ZERO_UUID, BrokerId, UnknownTags, Uuid
from kraftspec.generated import kafka
from kraftspec.specs import specs_root

TEXT = 'It\'s "quoted" and """thrice""", with a back\\slash. ' + "Words go on and on. " * 12


def field(name: str, type: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "versions": versions, **more}


SPEC = {
    "type": "request", "apiKey": 77, "name": "Everything", "validVersions": "1-4",
    "flexibleVersions": "3+", "listeners": ["broker"],
    "fields": [
        field("Flag", "bool", default="true"),
        field("Small", "int8", default="-5"),
        field("Port", "uint16", default="0xffff"),
        field("Ratio", "float64", default="0.5"),
        field("Endless", "float64", default="-Infinity"),
        field("NotANumber", "float64", default="NaN"),
        field("Id", "uuid"),
        field("Known", "uuid", default="AAAAAAAAAAAAAAAAAAAAAQ"),
        field("Name", "string", about=TEXT),
        field("Maybe", "string", "2+", nullableVersions="3+", ignorable=True),
        field("Never", "string", nullableVersions="0+", default="null"),
        field("Blob", "bytes", zeroCopy=True),
        field("Log", "records", nullableVersions="0+"),
        field("Broker", "int32", entityType="brokerId", default="-1"),
        field("Brokers", "[]int32", entityType="brokerId"),
        field("Words", "[]string", nullableVersions="0+"),
        field("Class", "int32"),
        field("One", "One", fields=[field("X", "int32", "0-1")]),
        field("Maybes", "[]Item", nullableVersions="0+", fields=[
            field("Key", "string", mapKey=True), field("Ids", "[]uuid"),
        ]),
        field("Tagged", "int64", "3+", tag=0, taggedVersions="3+", default="-1"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The class of SPEC, generated and imported."""
    root = tmp_path_factory.mktemp("target")
    (root / "specs").mkdir()
    (root / "specs/Everything.json").write_text(json.dumps(SPEC))
    generate([MessageSet("specs", root / "specs", root / "everything_codecs", "everything_codecs")])
    sys.path.insert(0, str(root))
    try:
        yield importlib.import_module("everything_codecs").Everything
    finally:
        sys.path.remove(str(root))


def test_facts(everything: Any) -> None:
    assert (everything.API_KEY, everything.TYPE) == (77, "request")
    assert [*everything.VALID_VERSIONS] == [1, 2, 3, 4]
    assert [*everything.FLEXIBLE_VERSIONS] == [3, 4]
    module = sys.modules[everything.__module__.split(".")[0]]
    assert module.CATALOGUE == {"Everything": ("everything", "request", 77, 1, 5, 3)}


def test_defaults(everything: Any) -> None:
    built = everything()
    assert built.not_a_number != built.not_a_number
    assert built.not_a_number is not everything().not_a_number  # no two are equal
    built.not_a_number = 0.0
    assert {name: getattr(built, name) for name in built.__struct_fields__} == {
        "flag": True, "small": -5, "port": 65535, "ratio": 0.5, "endless": float("-inf"),
        "not_a_number": 0.0, "id": bytes(16), "known": bytes(15) + b"\1", "name": "",
        "maybe": "", "never": None,
        "blob": b"", "log": None, "broker": -1, "brokers": (), "words": (), "class_": 0,
        "one": everything.One(), "maybes": [], "tagged": -1, "unknown_tagged_fields": (),
    }  # fmt: skip
    assert type(built.known) is Uuid
    assert built.id is ZERO_UUID
    assert built.one.x == 0
    with pytest.raises(TypeError):
        everything(1)  # by keyword only


def test_annotations(everything: Any) -> None:
    hints = typing.get_type_hints(everything)
    assert {name: hints[name] for name in everything.__struct_fields__} == {
        "flag": bool, "small": int, "port": int, "ratio": float, "endless": float,
        "not_a_number": float, "id": Uuid,
        "known": Uuid, "name": str, "maybe": str | None, "never": str | None, "blob": bytes,
        "log": bytes | memoryview | None, "broker": BrokerId | int,
        "brokers": tuple[BrokerId | int, ...], "words": tuple[str, ...] | None, "class_": int,
        "one": everything.One, "maybes": list[everything.Item] | None, "tagged": int,
        "unknown_tagged_fields": UnknownTags,
    }  # fmt: skip
    inner = typing.get_type_hints(everything.Item)
    assert (inner["key"], inner["ids"]) == (str, tuple[Uuid, ...])


def test_docstrings(everything: Any) -> None:
    doc = inspect.getdoc(everything) or ""
    lines = doc.splitlines()
    assert lines[0] == "Everything: request, API key 77; versions 1-4, flexible 3-4."
    assert "maybe: string, versions 2-4, nullable in 3-4, ignorable." in lines
    assert "never: string, nullable." in lines
    assert "tagged: int64, versions 3-4, tag 0 in 3-4." in lines
    assert "class_: int32." in lines
    reported = " ".join(doc.split())
    assert "name: string. " + " ".join(TEXT.replace('"""', "'''").split()) in reported
    assert all(len(line) < 100 for line in lines)
    assert (inspect.getdoc(everything.Item) or "").splitlines() == [
        "Item, versions 1-4.", "", "key: string, map key.", "ids: []uuid.",
    ]  # fmt: skip
    assert "x: int32, versions 1." in (inspect.getdoc(everything.One) or "")


def test_a_message_that_is_never_flexible_has_no_unknown_tags() -> None:
    assert "unknown_tagged_fields" not in kafka.SaslHandshakeRequest.__struct_fields__
    assert (kafka.SaslHandshakeRequest.__doc__ or "").startswith(
        "SaslHandshakeRequest: request, API key 17; versions 0-1, flexible none."
    )


def test_a_message_without_versions_is_still_a_class() -> None:
    gone = kafka.LeaderAndIsrRequest
    assert [*gone.VALID_VERSIONS] == [*gone.FLEXIBLE_VERSIONS] == []
    assert gone.CODEC.plans == {}
    assert gone() == gone()


def test_modules_import_no_more_than_fastpath_and_msgspec() -> None:
    allowed = {"__future__", "typing", "struct", "importlib", "msgspec", "enum"}
    result = set()
    root = Path(kafka.__file__).parent
    for path in [*root.glob("*.py"), *root.glob("pure/v*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                result |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                result.add(node.module or "")
    ours = {name for name in result if name.startswith("kraftspec.")}
    assert result - ours <= allowed
    assert ours
    assert all(name.startswith("kraftspec.fastpath.") for name in ours)


def test_the_stub_names_every_class() -> None:
    stub = (Path(kafka.__file__).parent / "__init__.pyi").read_text()
    named = {
        name.asname
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert named == set(kafka.CATALOGUE)


def test_an_index_is_sorted_whatever_the_order_of_the_messages() -> None:
    paths = sorted((specs_root() / "kafka/raft").glob("*.json"))
    paths += sorted((specs_root() / "kafka/storage").glob("*.json"))
    messages = [read_message(path) for path in paths]
    forwards = render_package(messages, "p", "s", "T")
    assert forwards == render_package(reversed(messages), "p", "s", "T")
    assert set(forwards) == {"__init__.py", "__init__.pyi", "pure/__init__.py"}


def test_enums() -> None:
    text = render_enums("s.json", "Numbers", [
        {"name": "One", "doc": "First.", "members": [("A", -1), ("B", 2)]},
    ])  # fmt: skip
    namespace: dict[str, Any] = {"__name__": "made"}
    exec(text, namespace)
    assert [(entry.name, int(entry)) for entry in namespace["One"]] == [("A", -1), ("B", 2)]
    assert namespace["One"].__doc__ == "First."
    assert namespace["__doc__"] == "Numbers."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (..., "..."),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, ("a", None)), '(1, ("a", None))'),
        ({1: "a", 2: ()}, '{1: "a", 2: ()}'),
        ('it\'s "é"', '"it\'s \\"\\u00e9\\""'),
        (float("inf"), 'float("inf")'),
        (float("nan"), 'float("nan")'),
        (-0.0, "-0.0"),
        (True, "True"),
        (b"\0", "b'\\x00'"),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert literal(value) == text
    assert repr(eval(text)) == repr(value)


def test_code_without_versions_in_it() -> None:
    """What differs between versions has become different layouts before the templates."""
    pure = Path(kafka.__file__).parent / "pure"
    for path in pure.glob("f*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text()))
                 if isinstance(node, ast.Name)}  # fmt: skip
        assert "version" not in names
