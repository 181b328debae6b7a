"""The recovering parser: JSON as others read it, and the nearest thing where it is none."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.codegen.jsonc import DEPTH_MAX, Document, parse

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)
# What specs are made of, whole and in pieces; soups of these break in every way there is.
PIECES = st.sampled_from(
    [
        "{", "}", "[", "]", ",", ":", '"', '"a"', '"b": 1', '{"a": 1}', '{"a": [', "]}", "},",
        '"name": "X",', '"type" "uuid"', "TBD", "true", "null", "-1.5e3", "01", "0x1f", "'x'",
        "...", "…", "// note\n", "/* note", "*/", "\\", '"\\q"', '"\\ud800"', '"\\u00e9"', "\n",
        " ", "\t", "\r\n", "\u00a0", "\x00", "é", "😀", "1e999", "9" * 500, "NaN", "/", "'",
    ]
)  # fmt: skip


def mistakes_of(document: Document) -> list[tuple[int, int, str]]:
    return [(d.line, d.column, d.rule) for d in document.diagnostics]


@given(JSON, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_json_is_read_as_others_read_it(value: object, indent: int | str, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    document = parse(text)
    assert mistakes_of(document) == []
    assert document.root is not None
    assert document.root.plain() == value
    assert repr(document.root.plain()) == repr(json.loads(text))  # 1, 1.0 and True are not the same


@given(st.lists(PIECES, max_size=40).map("".join) | st.text())
def test_any_text_gives_a_document(text: str) -> None:
    document = parse(text, "soup")
    assert document.root is not None or mistakes_of(document)
    for pointer, node in document.nodes():
        assert 0 <= node.start <= len(text)
        assert document.place(pointer) == document.position(node.start)
        node.plain()
    places = [(d.line, d.column) for d in document.diagnostics]
    assert places == sorted(places)
    rows = text.split("\n")
    assert all(1 <= row <= len(rows) and 1 <= col <= len(rows[row - 1]) + 1 for row, col in places)


@given(st.lists(PIECES, max_size=25).map("".join))
def test_what_gets_no_diagnostic_is_json(text: str) -> None:
    document = parse(text)
    if not document.diagnostics:
        assert document.root is not None
        uncommented = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', r"\1", text)
        assert json.loads(uncommented) == document.root.plain()


@given(st.lists(PIECES, max_size=25).map("".join))
def test_what_others_refuse_gets_a_diagnostic(text: str) -> None:
    uncommented = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', r"\1", text)
    try:
        json.loads(uncommented)
    except ValueError:
        assert parse(text).diagnostics


@pytest.mark.parametrize(
    ("text", "value", "mistakes"),
    [
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}, [(1, 8, "json-comma")]),
        ('{"a": 1,}', {"a": 1}, [(1, 8, "json-comma")]),
        ("[1, 2 3,, 4,]", [1, 2, 3, 4],
         [(1, 6, "json-comma"), (1, 9, "json-comma"), (1, 12, "json-comma")]),
        ('{"a" 1}', {"a": 1}, [(1, 5, "json-colon")]),
        ('{"a" "b", "c": 1}', {"a": "b", "c": 1}, [(1, 5, "json-colon")]),
        ('{"a": TBD, "b": 1}', {"a": None, "b": 1}, [(1, 7, "json-value")]),
        ('{"a": , "b": 1}', {"a": None, "b": 1}, [(1, 6, "json-value")]),
        ('{"a": None}', {"a": None}, [(1, 7, "json-value")]),
        ('{a: 1}', {"a": 1}, [(1, 2, "json-key")]),
        ('{"a", "b": 1}', {"b": 1}, [(1, 2, "json-key")]),
        ('{"a": 1, "a": 2}', {"a": 2}, [(1, 10, "json-duplicate-key")]),
        ('{"a": [1, 2}', {"a": [1, 2]}, [(1, 12, "json-unclosed")]),
        ('{"a": [1, 2}, "b": 3}', {"a": [1, 2], "b": 3}, [(1, 12, "json-unclosed")]),
        ('[{"a": 1, {"b": 2}]', [{"a": 1}, {"b": 2}], [(1, 11, "json-unclosed")]),
        ('[{"a": 1]', [{"a": 1}], [(1, 9, "json-unclosed")]),
        ('{"a": [{"b": 1', {"a": [{"b": 1}]}, [(1, 15, "json-unclosed")]),
        ('[{"a": 1} "b": 2}, 3]', [{"a": 1, "b": 2}, 3], [(1, 9, "json-closed-early")]),
        ('[{"a": 1}, "b": 2}, 3]', [{"a": 1, "b": 2}, 3], [(1, 9, "json-closed-early")]),
        ('{"a": 1}, "b": 2}', {"a": 1, "b": 2}, [(1, 8, "json-closed-early")]),
        ('{"a": {"b": 1}, {"b": 2}], "c": 3}', {"a": [{"b": 1}, {"b": 2}], "c": 3},
         [(1, 7, "json-unopened")]),
        ('[{"a": 1}, "a": 2}]', [{"a": 1}, {"a": 2}], [(1, 12, "json-unopened")]),
        ('["a": 2}]', [{"a": 2}], [(1, 2, "json-unopened")]),
        ('{a": b", "c": 0+"}', {"a": "b", "c": "0+"},
         [(1, 2, "json-string"), (1, 6, "json-string"), (1, 15, "json-string")]),
        ("[1, ...]", [1], [(1, 5, "json-ellipsis")]),
        ('{"a": 1,\n…\n}', {"a": 1}, [(2, 1, "json-ellipsis")]),
        ('{"a": "x\n, "b": 1}', {"a": None, "b": 1}, [(1, 7, "json-string")]),
        ('{"a: "x", "b": 1}', {}, [(1, 2, "json-string")]),
        ('["it\\\'s"]', ["it\\'s"], [(1, 5, "json-escape")]),
        ('["a\tb"]', ["a\tb"], [(1, 4, "json-string")]),
        ("['a']", ["a"], [(1, 2, "json-string")]),
        ("[007]", [None], [(1, 2, "json-number")]),
        ("{} {}", {}, [(1, 4, "json-trailing")]),
        ("", None, [(1, 1, "json-empty")]),
        ("[1]\n// the end", [1], []),
        ('{"a": "// no comment"}', {"a": "// no comment"}, []),
        ("[/* one */ 1]", [1], [(1, 2, "json-comment")]),
        ("[1,\u00a02]", [1, 2], [(1, 4, "json-space")]),
    ],
)  # fmt: skip
def test_recovery(text: str, value: object, mistakes: list[tuple[int, int, str]]) -> None:
    document = parse(text)
    assert (document.root.plain() if document.root else None) == value
    assert mistakes_of(document) == mistakes


def test_places() -> None:
    document = parse('{\n  "fields": [\n    {"name": "A"},\n    {"name": "B", "tag": 0}\n  ]\n}')
    assert document.place(()) == (1, 1)
    assert document.place(("fields",)) == (2, 13)
    assert document.place(("fields",), key=True) == (2, 3)
    assert document.place(("fields", 1, "tag")) == (4, 26)
    assert document.place(("fields", 1, "tag"), key=True) == (4, 19)
    # Of what is not there, the nearest thing around it.
    assert document.place(("fields", 1, "default")) == (4, 5)
    assert document.place(("fields", 7, "name")) == (2, 13)


@pytest.mark.parametrize("opener", ["[", '{"a":', '[{"a":['])
def test_depth_is_bounded(opener: str) -> None:
    document = parse(opener * 50_000)
    assert [rule for _, _, rule in mistakes_of(document)] == ["json-depth", "json-unclosed"]
    assert max(len(pointer) for pointer, _ in document.nodes()) <= DEPTH_MAX


@pytest.mark.parametrize(
    "piece",
    ["{", "]", '"', "'", ",", "/*", '{"a":1 ', '},"a":1', '"a" ', "... ", "\\", '[{"a":1}"b":2}'],
)  # fmt: skip
def test_a_long_bad_text_is_read_to_its_end(piece: str) -> None:
    """Seconds here would be minutes if the time were not linear in the length."""
    assert parse(piece * (60_000 // len(piece))).diagnostics
