"""The explorer in a real Chromium: golden vectors in the page, search, keys, sizes, schemes."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Response, expect
from tests.waiting import until

from kraftspec.cli import main
from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.records import Compression
from kraftspec.generated.kafka import FetchRequest, FetchResponse, PartitionRecord
from kraftspec.proxy.capture import FILE_HEADER, Tcp, record
from kraftspec.reference.wire.frames import request_header, response_header

FIRST_PAGE_BYTES_MAX = 300_000
PAGES = ("#/", "#/message/FetchRequest/17", "#/errors", "#/releases", "#/bytes")
# An ApiVersions request, version 3, of the client "me": its JSON says "a" and "b".
REQUEST = "00120003000000010002" + "6d6500" + "0261026200"
# The fields of the bytes that are in the page, with bytes as hex.
DECODE_FILE = """async (kind) => {
  const { decode, fromHex, toHex } = await import('./decode.js')
  const data = fromHex(document.getElementById('hex').value)
  const [name, version] = ['name', 'version'].map((id) => document.getElementById(id).value)
  const { spans, error, batchError } = await decode(data, kind, name, Number(version))
  return {
    error: error ?? batchError ?? null,
    spans: spans.map(({ path, value }) =>
      [path, value instanceof Uint8Array ? toHex(value) : String(value)])
  }
}"""

pytestmark = [pytest.mark.peers, pytest.mark.browser]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site as the command writes it, served on loopback as files."""
    out = tmp_path_factory.mktemp("explorer")
    result = CliRunner().invoke(main, ["spec", "explorer", "--out", str(out / "explorer")])
    assert result.exit_code == 0, result.output
    # As the page serves it, at a free port.
    words = ["-u", "-m", "http.server", "--directory", "explorer", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=out,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            server.terminate()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A page; what it throws, and what it cannot load, fails the test."""
    wrong: list[Any] = []

    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(message.text)

    def thrown(error: Error) -> None:
        wrong.append(error.message)

    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(30_000)
    page.on("console", said)
    page.on("pageerror", thrown)
    yield page
    page.close()
    assert wrong == []


def visit(page: Page, site: str, part: str = "#/") -> None:
    page.goto(site + part)
    shown(page, part)


def shown(page: Page, part: str) -> None:
    expect(page.locator("#main")).to_have_attribute("data-shown", part, timeout=30_000)


def sample() -> list[dict[str, Any]]:
    """Valid vectors of every request and response: the longest of three versions."""
    chosen_vectors = []
    paths = (vectors_root() / "kafka").glob("*.json")
    for path in sorted(path for path in paths if path.stem.endswith(("Request", "Response"))):
        file = json.loads(path.read_bytes())
        tests = [
            one
            for one in file["tests"]
            if one["result"] == "valid" and one["op"] == "roundtrip" and len(one["hex"]) < 20_000
        ]
        tests.sort(key=lambda one: -len(one["hex"]))
        chosen = {one["version"]: one for one in reversed(tests)}
        versions = sorted(chosen)
        for version in {versions[0], versions[len(versions) // 2], versions[-1]}:
            chosen_vectors.append({"message": file["message"], **chosen[version]})
    return chosen_vectors


def test_golden_vectors_decode_in_the_page_and_their_bytes_come_back(tab: Page, site: str) -> None:
    vectors = sample()
    assert len(vectors) >= 200
    assert len({one["message"] for one in vectors}) > 150
    visit(tab, site, "#/bytes")
    script = """async (vectors) => {
      const { decode, encode, fromHex, toHex } = await import('./decode.js')
      return await Promise.all(vectors.map(async ({ message, version, hex }) => {
        const data = fromHex(hex)
        const { spans, json, error } = await decode(data, 'message', message, version)
        const places = spans.map(({ start, end }) => [start, end])
        if (error) return { error, places }
        return { json, places, hex: toHex(await encode(json, message, version)) }
      }))
    }"""
    given = [{key: one[key] for key in ("message", "version", "hex")} for one in vectors]
    for vector, got in zip(vectors, tab.evaluate(script, given), strict=True):
        where = vector["message"], vector["version"], vector["id"]
        assert "error" not in got, (where, got)
        assert json.loads(got["json"]) == vector["value"], where
        assert got["hex"] == vector["hex"], where
        # Each byte belongs to one field.
        at = 0
        for start, end in got["places"]:
            assert start == at, where
            at = end
        assert at == len(vector["hex"]) // 2, where


def test_a_pasted_request_says_what_it_is_and_lights_both_ways(tab: Page, site: str) -> None:
    visit(tab, site, "#/bytes/FetchResponse/4")
    expect(tab.locator("#name")).to_have_value("FetchResponse")
    tab.locator("#hex").fill("00000012" + REQUEST)  # With the size of a frame before it.
    expect(tab.locator("#name")).to_have_value("ApiVersionsRequest")
    expect(tab.locator("#version")).to_have_value("3")
    expect(tab.locator("#json")).to_have_value(re.compile("clientSoftwareName"))
    assert json.loads(tab.locator("#json").input_value()) == {
        "clientSoftwareName": "a", "clientSoftwareVersion": "b",
    }  # fmt: skip
    tab.locator('.hex [data-at="14"]').hover()
    expect(tab.locator(".tree .lit")).to_have_text('clientId: "me"')
    lit = tab.locator(".hex b.lit")
    expect(lit).to_have_text(["00", "02", "6d", "65"])
    tab.get_by_role("button", name='clientSoftwareName: "a"').hover()
    expect(lit).to_have_text(["02", "61"])
    tab.locator(".hex").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    expect(tab.locator(".tree .lit")).to_have_text('clientSoftwareVersion: "b"')


def test_edited_json_becomes_bytes_behind_the_same_header(tab: Page, site: str) -> None:
    visit(tab, site, "#/bytes")
    tab.locator("#hex").fill("00000012" + REQUEST)
    expect(tab.locator("#note")).to_contain_text("22 bytes")
    tab.locator("#json").fill('{"clientSoftwareName": "abc", "clientSoftwareVersion": "b"}')
    expect(tab.locator("#note")).to_contain_text("24 bytes")
    digits = r"\s*".join("00000014" + REQUEST[:26] + "0461626302" + "6200")
    expect(tab.locator("#hex")).to_have_value(re.compile(f"^{digits}$"))
    tab.locator("#json").fill('{"clientSoftwareName": 1, "clientSoftwareVersion": "b"}')
    expect(tab.locator("#note")).to_contain_text("clientSoftwareName")


def test_bytes_that_end_early_are_decoded_up_to_there(tab: Page, site: str) -> None:
    visit(tab, site, "#/bytes")
    tab.locator("#hex").fill(REQUEST[:-6])
    expect(tab.locator("#note")).to_contain_text("at byte 15, clientSoftwareVersion")
    expect(tab.locator(".tree")).to_contain_text('clientSoftwareName: "a"')
    tab.locator("#hex").fill("00 1x")
    expect(tab.locator("#note")).to_have_text('"x" after 3 digits is no hex digit')


def test_a_dropped_file_is_decoded(tab: Page, site: str, tmp_path: Path) -> None:
    visit(tab, site, "#/bytes/FetchResponse/4")
    (tmp_path / "frame").write_bytes(bytes.fromhex(REQUEST))
    tab.locator("#file").set_input_files(tmp_path / "frame")
    expect(tab.locator("#note")).to_have_text("18 bytes: ApiVersionsRequest version 3.")


def segment(compressions: Iterable[Compression], records: int = 5) -> bytes:
    return b"".join(
        encode_batch(
            [b"value %d" % number for number in range(records)],
            timestamps=1_700_000_000_000,
            base_offset=records * index,
            compression=compression,
        )
        for index, compression in enumerate(compressions)
    )


def answered(records: bytes) -> FetchResponse:
    partition = FetchResponse.PartitionData(high_watermark=5, records=records)
    topic = FetchResponse.FetchableTopicResponse(partitions=[partition])
    return FetchResponse(responses=[topic])


def test_a_segment_shows_its_batches_however_they_are_compressed(
    tab: Page, site: str, tmp_path: Path
) -> None:
    log = segment([Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
    (tmp_path / "00000000000000000000.log").write_bytes(log)
    visit(tab, site, "#/bytes")
    tab.locator("#file").set_input_files(tmp_path / "00000000000000000000.log")
    expect(tab.locator("#note")).to_have_text(f"{len(log)} bytes: a log.")
    decoded = tab.evaluate(DECODE_FILE, "log")
    assert decoded["error"] is None
    values = {path: value for path, value in decoded["spans"] if path.endswith(".value")}
    assert values == {
        f"[{batch}].records[{number}].value": (b"value %d" % number).hex()
        for batch in range(4)
        for number in range(5)
    }
    # The records of the third batch light up what they were compressed to.
    tab.locator(".tree").get_by_text("[4]", exact=True).nth(2).hover()
    starts = [0]
    for _ in range(3):
        starts.append(starts[-1] + 12 + int.from_bytes(log[starts[-1] + 8 : starts[-1] + 12]))
    expect(tab.locator("#lit")).to_have_text(f"bytes {starts[2] + 61} to {starts[3] - 1}: [4]")


def test_zstd_is_read_by_a_package_beside_the_codecs(tab: Page, site: str, tmp_path: Path) -> None:
    log = segment([Compression.ZSTD] * 2)
    (tmp_path / "zstd.log").write_bytes(log)
    urls: list[str] = []
    tab.on("request", lambda request: urls.append(request.url.removeprefix(site)))
    visit(tab, site, "#/bytes")
    assert "codecs/fzstd.js" not in urls
    tab.locator("#file").set_input_files(tmp_path / "zstd.log")
    expect(tab.locator("#note")).to_have_text(f"{len(log)} bytes: a log.")
    decoded = tab.evaluate(DECODE_FILE, "log")
    assert decoded["error"] is None
    values = [value for path, value in decoded["spans"] if path.endswith(".value")]
    assert values == [(b"value %d" % number).hex() for number in range(5)] * 2
    assert "codecs/fzstd.js" in urls


def test_what_is_wrong_with_a_batch_is_said(tab: Page, site: str, tmp_path: Path) -> None:
    visit(tab, site, "#/bytes")
    log = bytearray(segment([Compression.NONE] * 2))
    log[-1] ^= 1
    (tmp_path / "bad.log").write_bytes(log)
    tab.locator("#file").set_input_files(tmp_path / "bad.log")
    place = len(log) // 2 + 17
    expect(tab.locator("#note")).to_contain_text(f"crc_mismatch at byte {place}, [1].crc: ")
    vectors = json.loads((vectors_root() / "kafka" / "RecordBatch.json").read_bytes())["tests"]
    [bomb] = [one["hex"] for one in vectors if one["comment"].startswith("1024 MiB of zeros")]
    (tmp_path / "zstd.log").write_bytes(bytes.fromhex(bomb))
    tab.locator("#file").set_input_files(tmp_path / "zstd.log")
    expect(tab.locator("#note")).to_contain_text("decompression_bomb at byte 61, [0].records: ")


def test_a_record_of_the_metadata_log_is_shown_field_by_field(
    tab: Page, site: str, tmp_path: Path
) -> None:
    record = b"\x01\x03\x02" + PartitionRecord(partition_id=7, leader=5).encode(2)
    (tmp_path / "meta.log").write_bytes(encode_batch([record], timestamps=1_700_000_000_000))
    visit(tab, site, "#/bytes")
    tab.locator("#file").set_input_files(tmp_path / "meta.log")
    expect(tab.locator(".tree")).to_contain_text("PartitionRecord v2")
    expect(tab.locator(".tree")).to_contain_text("partitionId: 7")
    tab.locator(".tree").get_by_text("leader: 5").hover()
    expect(tab.locator(".hex b.lit")).to_have_text(["00", "00", "00", "05"])


def test_a_capture_shows_each_message_with_the_batches_in_it(
    tab: Page, site: str, tmp_path: Path
) -> None:
    tcp = Tcp(((bytes((10, 0, 1, 1)), 20_001), (bytes((10, 0, 0, 1)), 9092)))
    request = request_header(FetchRequest, 16, 2, "me") + FetchRequest().encode(16)
    data = answered(segment([Compression.NONE] * 2)).encode(16)
    told = response_header(FetchResponse, 16, 2) + data
    packets = [tcp.packet(0, struct.pack(">i", len(request)) + request)]
    stream = struct.pack(">i", len(told)) + told
    packets += [tcp.packet(1, stream[at : at + 50]) for at in range(0, len(stream), 50)]
    packets[2], packets[3] = packets[3], packets[2]  # Out of order,
    packets.append(packets[4])  # and one came twice.
    (tmp_path / "a.pcap").write_bytes(FILE_HEADER + b"".join(record(one, 0) for one in packets))
    visit(tab, site, "#/bytes")
    tab.locator("#file").set_input_files(tmp_path / "a.pcap")
    expect(tab.locator("#capture option")).to_have_text(
        ["1: FetchRequest 16, 10.0.1.1:20001 to 10.0.0.1:9092",
         "2: FetchResponse 16, 10.0.0.1:9092 to 10.0.1.1:20001"]
    )  # fmt: skip
    expect(tab.locator("#name")).to_have_value("FetchRequest")
    tab.locator("#capture").select_option("1")
    expect(tab.locator("#note")).to_have_text(f"{len(stream)} bytes: FetchResponse version 16.")
    decoded = tab.evaluate(DECODE_FILE, "frame")
    values = [value for path, value in decoded["spans"] if path.endswith("].value")]
    assert values == [(b"value %d" % number).hex() for number in range(5)] * 2
    assert json.loads(tab.locator("#json").input_value())["responses"]


def test_a_megabyte_of_fetched_records_is_shown_within_a_second(
    browser: Browser, site: str, tmp_path: Path
) -> None:
    """Counted is the time of the page's thread, so that other work of the machine is not."""
    batch = encode_batch([bytes(96)] * 100, timestamps=1_700_000_000_000)
    data = answered(batch * 100).encode(16)
    assert len(data) > 1_000_000
    tab = browser.new_page()
    visit(tab, site, "#/bytes/FetchResponse/16")
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent_s() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    took = []
    for lap in range(10):  # The first ones compile the page's code.
        path = tmp_path / f"fetched-{lap}"  # The same file again would be no change.
        path.write_bytes(data)
        before = spent_s()
        tab.locator("#file").set_input_files(path)
        shown = f"{len(data)} bytes: FetchResponse version 16."
        expect(tab.locator("#note")).to_have_text(shown, timeout=60_000)
        took.append(spent_s() - before)
        tab.locator("#hex").fill("00")
        expect(tab.locator("#note")).not_to_have_text(shown)
        tab.locator("#kind").select_option("message")
        if took[-1] < 1:
            break
    tab.close()
    assert took[-1] < 1, took


def test_search_finds_each_kind_by_the_keyboard_alone(tab: Page, site: str) -> None:
    visit(tab, site)
    for typed, part in (
        ("fetchrequest", "#/message/FetchRequest"),
        ("preVote", "#/message/VoteRequest/2/preVote"),
        ("VoteRequest.preVote", "#/message/VoteRequest/2/preVote"),  # As it is shown.
        ("NOT_LEADER", "#/errors/6"),
        ("3.7.0", "#/release/3.7.0"),
    ):
        tab.locator("#main").focus()
        tab.keyboard.press("/")
        tab.keyboard.type(typed)  # In the place of what was looked for before.
        expect(tab.locator(f'#found li:first-child a[href="{part}"]')).to_be_visible()
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        shown(tab, part)
    tab.locator("#search").fill("no such thing")
    expect(tab.locator("#count")).to_have_text("Nothing has that name.")
    tab.locator("#search").fill("vote")
    expect(tab.locator("#found")).to_be_visible()
    tab.locator('nav a[href="#/errors"]').click()
    shown(tab, "#/errors")
    expect(tab.locator("#found")).to_be_hidden()


def test_a_message_shows_its_bytes_its_news_and_its_history(tab: Page, site: str) -> None:
    visit(tab, site, "#/message/VoteRequest/2")
    ruler = tab.locator(".ruler")
    expect(ruler.locator(".cell.new")).to_have_text("preVotebool")
    expect(ruler.locator('[data-path="topics.partitions.lastOffset"] i')).to_have_count(8)
    expect(ruler.locator(".link")).to_have_attribute("href", "#/message/RequestHeader/2")
    expect(tab.locator("h3", has_text="4.0.0")).to_be_visible()
    visit(tab, site, "#/releases/3.9.0/4.0.0")
    expect(tab.locator("h3", has_text="VoteRequest")).to_be_visible()
    visit(tab, site, "#/message/None")
    expect(tab.get_by_role("alert")).to_have_text("There is no message None here.")


def test_a_first_page_is_small_and_asks_no_other_host(browser: Browser, site: str) -> None:
    tab = browser.new_page()
    answers: list[Response] = []

    def answered(response: Response) -> None:
        answers.append(response)

    tab.on("response", answered)
    visit(tab, site)
    tab.wait_for_load_state("networkidle")
    assert sum(len(one.body()) for one in answers) < FIRST_PAGE_BYTES_MAX
    assert all(one.url.startswith(site) for one in answers)
    assert not [one.url for one in answers if "/codecs/" in one.url or "search" in one.url]
    tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_that_axe_knows_is_wrong(browser: Browser, site: str, scheme: str) -> None:
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    tab = context.new_page()
    for part in PAGES:
        visit(tab, site, part)
        with as_file(files("axe_playwright_python") / "axe.min.js") as script:
            tab.add_script_tag(path=script)
        report = tab.evaluate("axe.run()")
        assert "color-contrast" in {one["id"] for one in report["passes"]}
        assert [(one["id"], one["nodes"][0]["html"]) for one in report["violations"]] == [], part
    context.close()


def test_the_switch_changes_the_colours_and_is_kept(browser: Browser, site: str) -> None:
    context = browser.new_context(color_scheme="light")
    tab = context.new_page()
    visit(tab, site)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(colour)
    tab.get_by_role("button", name="Dark").click()
    dark = tab.evaluate(colour)
    assert dark != light

    def is_kept() -> bool:
        tab.reload()
        shown(tab, "#/")
        return bool(tab.evaluate(colour) == dark)

    until(is_kept)  # Chromium may load the page before it has stored what the last one kept.
    context.close()


@pytest.mark.parametrize("part", [*PAGES, "#/message/FetchResponse", "#/bytes/FetchResponse"])
def test_a_phone_scrolls_in_one_direction(browser: Browser, site: str, part: str) -> None:
    tab = browser.new_page(viewport={"width": 360, "height": 740})
    visit(tab, site, part)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.close()
