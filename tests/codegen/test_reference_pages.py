"""The protocol reference: every message and version, as the plans have them; links that lead."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import StructPlan, plan_message
from kraftspec.codegen.reader import read_message
from kraftspec.codegen.reference_pages import BATCH, render_reference
from kraftspec.fastpath.records import CRC_AT, MAGIC_AT, RECORD_COUNT_AT, RECORDS_AT
from kraftspec.specs import specs_root

SECTION = re.compile(r'<section id="v(\d+)">(.*?)</section>', re.DOTALL)
ROW = re.compile(r'<tr><td class="d(\d+)">(.*?)</td><td>(.*?)</td>')
TAG = re.compile(r"<small>tag (\d+)</small>")
Told = tuple[int, str, str, bool, int | None]  # depth, name, wire type, nullable, tag


@cache
def messages() -> tuple[Message, ...]:
    return tuple(map(read_message, sorted((specs_root() / "kafka").rglob("*.json"))))


@cache
def pages() -> dict[str, str]:
    return render_reference(messages(), specs_root(), "Apache Kafka", history=True)


def planned(struct: StructPlan, depth: int = 0) -> list[Told]:
    """Return the fields of a plan in wire order."""
    fields: list[Told] = []
    for entry in (*struct.fields, *struct.tagged):
        element = entry.element.name if isinstance(entry.element, StructPlan) else entry.element
        wire = entry.wire if element is None else f"{entry.wire} of {element}"
        if entry.wire == "struct":
            wire = str(element)
        fields.append((depth, entry.name, wire, entry.nullable, entry.tag))
        if isinstance(entry.element, StructPlan):
            fields += planned(entry.element, depth + 1)
    return fields


def told(section: str) -> list[Told]:
    """Return the fields of a version's table."""
    fields: list[Told] = []
    for depth, name, wire in ROW.findall(section):
        tag = TAG.search(name)
        nullable = "<small>nullable</small>" in wire
        label, kind = (re.sub(r" <small>.*?</small>", "", cell) for cell in (name, wire))
        fields.append((int(depth), label, kind, nullable, int(tag[1]) if tag else None))
    return fields


def test_every_version_is_told_as_its_plan_has_it() -> None:
    count = 0
    for message in messages():
        sections = dict(SECTION.findall(pages()[f"{message.name}.html"]))
        assert set(map(int, sections)) == set(message.valid_versions), message.name
        for number in message.valid_versions:
            text = sections[str(number)]
            if same := re.search(r'The same bytes as <a href="#v(\d+)">', text):
                assert plan_message(message, int(same[1])).flexible == (
                    plan_message(message, number).flexible
                )
                text = sections[same[1]]
            plan = plan_message(message, number)
            assert told(text) == planned(plan.struct), (message.name, number)
            assert ("Not flexible" in sections[str(number)]) is not plan.flexible
            if plan.header_version is not None:
                header = f"behind {message.type} header {plan.header_version}."
                assert header in sections[str(number)]
            count += 1
    assert count == 744


def test_every_link_leads_somewhere() -> None:
    anchors = {name: set(re.findall(r'id="([^"]+)"', text)) for name, text in pages().items()}
    for name, text in pages().items():
        for link in re.findall(r'href="([^"]+)"', text):
            page, _, anchor = link.partition("#")
            assert (page or name) in pages(), (name, link)
            assert not anchor or anchor in anchors[page or name], (name, link)


def test_the_index_names_every_message_and_its_key() -> None:
    linked = set(re.findall(r'href="(\w+)\.html"', pages()["index.html"]))
    assert linked >= {message.name for message in messages()}
    keys = re.findall(r'<tr><td>(\d+)</td><td><a href="(\w+)\.html">', pages()["index.html"])
    requests = [message for message in messages() if message.type == "request"]
    assert {name: int(key) for key, name in keys} == {
        message.name: message.api_key for message in requests
    }


def test_every_error_is_there() -> None:
    errors = json.loads((specs_root() / "errors.json").read_text("utf-8"))["errors"]
    rows = re.findall(r"<td>(-?\d+)</td><td>(\w+)</td>", pages()["errors.html"])
    assert [(int(code), name) for code, name in rows] == [
        (entry["code"], entry["name"]) for entry in errors
    ]


def test_a_batch_is_laid_out_as_our_reader_reads_it() -> None:
    at = 0
    places = {}
    for name, _, size, _ in BATCH:
        places[name], at = at, at + size
    assert at == RECORDS_AT
    assert (places["magic"], places["crc"], places["recordCount"]) == (
        MAGIC_AT, CRC_AT, RECORD_COUNT_AT,
    )  # fmt: skip


def test_a_version_says_what_it_added_and_a_release_what_it_changed() -> None:
    page = unescape(pages()["VoteRequest.html"])
    section = dict(SECTION.findall(page))["2"]
    assert "New: <code>topics.partitions.preVote</code>." in section
    assert "<h3>4.0.0</h3>" in page[page.index('id="history"') :]
    assert "<dt>answered by</dt><dd>controller</dd>" in page


def test_texts_of_schemas_are_escaped() -> None:
    about = [field.about for message in messages() for field in message.top.fields]
    assert any("'" in text or "<" in text for text in about)
    assert not any("<script" in text for text in pages().values())


@pytest.mark.parametrize("set_name", ["kafka", "kip-595"])
def test_the_command_writes_the_pages(tmp_path: Path, set_name: str) -> None:
    out = tmp_path / "deep" / "reference"
    result = CliRunner().invoke(main, ["spec", "reference", "--out", str(out), "--set", set_name])
    assert result.exit_code == 0, result.output
    names = {path.name for path in out.iterdir()}
    assert f"wrote {len(names)} files: {out / 'index.html'}\n" == result.stdout
    assert {"index.html", "errors.html", "records.html", "style.css"} < names
