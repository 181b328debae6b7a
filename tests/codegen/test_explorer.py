"""The explorer in a real Chromium: golden vectors in the page, search, keys, sizes, schemes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Response, expect

from kraftspec.cli import main
from kraftspec.conformance.vectors import vectors_root

FIRST_PAGE_BYTES_MAX = 300_000
PAGES = ("#/", "#/message/FetchRequest/17", "#/errors", "#/releases", "#/bytes")
# An ApiVersions request, version 3, of the client "me": its JSON says "a" and "b".
REQUEST = "00120003000000010002" + "6d6500" + "0261026200"

pytestmark = [pytest.mark.peers, pytest.mark.browser]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site as the command writes it, served on loopback as files."""
    out = tmp_path_factory.mktemp("explorer")
    result = CliRunner().invoke(main, ["spec", "explorer", "--out", str(out)])
    assert result.exit_code == 0, result.output
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=out)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


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
    found = []
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
            found.append({"message": file["message"], **chosen[version]})
    return found


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


def test_search_finds_each_kind_by_the_keyboard_alone(tab: Page, site: str) -> None:
    visit(tab, site)
    for typed, part in (
        ("fetchrequest", "#/message/FetchRequest"),
        ("preVote", "#/message/VoteRequest/2/preVote"),
        ("NOT_LEADER", "#/errors/6"),
        ("3.7.0", "#/release/3.7.0"),
    ):
        tab.locator("#main").focus()
        tab.keyboard.press("/")
        tab.locator("#search").fill(typed)
        expect(tab.locator(f'#found li:first-child a[href="{part}"]')).to_be_visible()
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        shown(tab, part)
    tab.locator("#search").fill("no such thing")
    expect(tab.locator("#count")).to_have_text("Nothing has that name.")


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
        found = tab.evaluate("axe.run()")
        assert "color-contrast" in {one["id"] for one in found["passes"]}
        assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == [], part
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
    tab.reload()
    shown(tab, "#/")
    assert tab.evaluate(colour) == dark
    context.close()


@pytest.mark.parametrize("part", [*PAGES, "#/message/FetchResponse", "#/bytes/FetchResponse"])
def test_a_phone_scrolls_in_one_direction(browser: Browser, site: str, part: str) -> None:
    tab = browser.new_page(viewport={"width": 360, "height": 740})
    visit(tab, site, part)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.close()
