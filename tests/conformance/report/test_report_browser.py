"""The page of results in a real Chromium: clicked, typed at, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Error,
    Locator,
    Page,
    Request,
    ViewportSize,
    expect,
)
from tests.waiting import until

from kraftspec.conformance.raw.results import HarnessFailure, Results, UnexpectedPass
from kraftspec.conformance.raw.vectors import Note
from kraftspec.conformance.report.browser import BrowserError, chromium, screenshot
from kraftspec.conformance.report.matrix import LeftOut, page

from .result_samples import NASTY, campaign, counts, failure, results

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 360, "height": 740}
ELEMENT_COUNT_MAX = 25_000  # Of eight codecs; a phone lays out that many without a pause.


def small() -> list[Results]:
    """Two implementations, four messages of two sets, and each kind of cell."""
    failures = [
        failure(
            direction="encode",
            offset=4,
            path="topics[0].topicName",
            flags=["a-bug"],
            wanted="0001ff03" * 8,
            given="0001ff0302" + "0001ff03" * 7,
        ),
        failure(version=1, detail=NASTY, id="00000000000000aa"),
        failure("FetchRequest", 12, id="00000000000000bb", kind="crash", detail="it died"),
        failure("FetchRequest", 4, direction="encode", id="00000000000000cc", known="their issue"),
    ]
    unexpected = UnexpectedPass(
        spec="kip-853", message="VoteRequest", version=0, id="00000000000000dd",
        direction="decode", family="defaults", known="fixed meanwhile",
    )  # fmt: skip
    theirs = {
        "ApiVersionsRequest": {"0": counts(skipped=4), "1": counts(passed=3, skipped=1)},
        "FetchRequest": {
            "4": counts(passed=3, known=1),
            "12": counts(passed=3, failed=1),
            "13": counts(passed=4),
        },
        "VoteRequest": {
            "0": counts(passed=3, failed=1),
            "1": counts(passed=3, failed=1),
            "2": counts(passed=4),
        },
        "kip-853/VoteRequest": {"0": counts(passed=3, unexpected=1)},
    }
    ours = {
        key: {version: counts(passed=4) for version in cells}
        for key, cells in theirs.items()
        if key != "ApiVersionsRequest"
    }
    return [
        results(ours, name="kraftspec", language="python"),
        results(
            theirs, failures, name="a/b, c", unexpected=[unexpected],
            harness_failure=HarnessFailure(kind="died", detail="it died thrice"),
        ),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    note = Note(
        bug_type="encoding",
        description="Writes one byte too many.",
        links=["https://issues.apache.org/jira/browse/KAFKA-1", "javascript:alert(1)"],
    )
    left_out = [LeftOut("kafkajs", "javascript", "node was not found")]
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page(small(), left_out=left_out, flags={"a-bug": note}), "utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def big_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "big.html"
    file.write_text(page(campaign(8, 0.4), flags={}), "utf-8")
    return file.as_uri()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in which nothing may be logged, thrown or fetched."""
    context = browser.new_context(viewport=DESKTOP, reduced_motion="reduce")
    yield from watched(context.new_page())
    context.close()


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    yield from watched(context.new_page())
    context.close()


def watched(tab: Page) -> Iterator[Page]:
    noise: list[str] = []

    def fetch(request: Request) -> None:
        if not request.url.startswith(("file:", "data:")):
            noise.append(request.url)

    def alert(dialog: Dialog) -> None:
        noise.append(dialog.message)
        dialog.dismiss()

    def log(message: ConsoleMessage) -> None:
        noise.append(message.text)

    def throw(error: Error) -> None:
        noise.append(str(error))

    tab.on("console", log)
    tab.on("pageerror", throw)
    tab.on("dialog", alert)
    tab.on("request", fetch)
    yield tab
    assert noise == []


def rows(tab: Page) -> list[str]:
    return tab.locator("tr.row:visible th").all_text_contents()


def cell(tab: Page, label: str, message: str) -> Locator:
    return tab.locator(f'td[aria-label^="{label}, {message}:"]').first


# -- Seen and clicked ------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_matrix_shows_versions_with_signs(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    assert rows(tab) == ["ApiVersionsRequest", "FetchRequest", "VoteRequest", "VoteRequest"]
    marks = cell(tab, "a/b, c", "FetchRequest").locator(".mark")
    assert marks.all_text_contents() == ["4", "12", "13"]
    signs = [
        mark.evaluate("one => getComputedStyle(one, '::before').content") for mark in marks.all()
    ]
    assert signs == ['"≈ "', '"✗ "', '"✓ "']
    assert cell(tab, "kraftspec", "FetchRequest").locator(".mark").all_text_contents() == [
        "4",
        "12\u201313",
    ]
    heads = tab.locator("thead th .share").all_inner_texts()
    assert [head.split() for head in heads] == [
        ["100", "%"],
        ["83.8", "%", "\u2717", "4", "\u2248", "1", "\u25cb", "5", "broke", "off"],
    ]
    footer = tab.locator("footer").inner_text()
    for text in ("kafkajs (javascript): node was not found", "it died thrice"):
        assert text in footer


def test_few_failures_and_versions_that_are_none_have_marks_of_their_own(
    tab: Page, tmp_path: Path
) -> None:
    versions = {"0": counts(passed=99, failed=1), "1": counts(passed=1, failed=1)}
    nowhere = {"-1": counts(passed=1, failed=1), "9": counts(failed=1)}
    run = results(
        {"VoteRequest": {**versions, **nowhere}, "FetchRequest": {"3": counts(passed=1)}},
        [failure(version=version) for version in (-1, 0, 1, 9)],
    )
    file = tmp_path / "report.html"
    file.write_text(page([run], flags={}), "utf-8")
    tab.goto(file.as_uri())
    assert "2 messages, 2 pairs" in tab.locator("body > header").inner_text()
    vote = cell(tab, "mine", "VoteRequest")
    marks = [(one.get_attribute("class"), one.inner_text()) for one in vote.locator(".mark").all()]
    assert marks == [("mark few", "0"), ("mark failed", "1"), ("mark failed", "other")]
    vote.click()
    lines = tab.locator("table.versions tbody tr").all_inner_texts()
    assert [line.split() for line in lines] == [
        ["0", "99", "1"],
        ["1", "1", "1"],
        ["other", "1", "2"],
    ]
    tab.keyboard.press("Escape")
    assert cell(tab, "mine", "FetchRequest").locator(".mark").count() == 0  # It is refused.


def test_a_click_opens_the_failures_of_a_cell(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    cell(tab, "a/b, c", "VoteRequest").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("heading", level=2)).to_have_text("a/b, c · VoteRequest")
    assert dialog.locator("article").count() == 2
    first = dialog.locator("article").first
    for text in ("topics[0].topicName", "byte 4", "Writes one byte too many."):
        assert text in first.inner_text()
    assert first.locator(".command pre").inner_text() == failure().reproduce
    lines = first.locator(".hex tr").all_inner_texts()
    assert lines[0].split() == ["0", "wanted", *["00", "01", "ff", "03"] * 4]
    assert lines[1].split()[:6] == ["given", "00", "01", "ff", "03", "02"]
    assert first.locator(".hex mark").first.inner_text() == "00"
    assert first.get_by_role("link").all_inner_texts() == ["issues.apache.org/jira/browse/KAFKA-1"]
    assert "javascript:alert(1)" in first.inner_text()  # As text: it is no link.
    assert "</script><script>alert(1)</script>" in dialog.locator("article").last.inner_text()
    dialog.get_by_label("Close").click()
    expect(dialog).to_be_hidden()
    expect(tab).to_have_url(small_page)


def test_a_cell_of_skips_says_why(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    cell(tab, "a/b, c", "ApiVersionsRequest").click()
    body = tab.locator("#detail-body").inner_text()
    assert "No failures." in body
    assert "5 \u00d7 not written yet" in body


def test_a_cell_of_an_unexpected_pass_tells_of_it(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    tab.locator("#set").select_option("kip-853")
    assert rows(tab) == ["VoteRequest"]
    tab.locator('tr.row:visible td[data-verdict="surprise"]').click()
    assert "fixed meanwhile" in tab.locator("#detail-body").inner_text()


def test_next_and_previous_walk_the_failures(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    cell(tab, "a/b, c", "FetchRequest").click()
    kinds = tab.locator("#detail-body h4.kind")  # Crashes come first.
    assert kinds.all_inner_texts() == ["crash: 1", f"{failure().kind}: 1"]
    assert "it died" in kinds.locator("+ article").first.inner_text()
    title = tab.locator("#detail-title")
    tab.get_by_label("Next cell with failures").click()
    expect(title).to_have_text("a/b, c · VoteRequest")
    tab.get_by_label("Previous cell with failures").click()
    tab.get_by_label("Previous cell with failures").click()
    expect(title).to_have_text("a/b, c · VoteRequest")
    assert "cell=a/b" in tab.url
    assert "kip-853" in tab.url


def test_a_command_can_be_copied(browser: Browser, small_page: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    for tab in watched(context.new_page()):
        tab.goto(small_page)
        cell(tab, "a/b, c", "FetchRequest").click()
        tab.get_by_role("button", name="Copy").first.click()
        expect(tab.get_by_role("button", name="Copied")).to_be_visible()
        assert tab.evaluate("navigator.clipboard.readText()") == failure().reproduce
    context.close()


# -- Filters and the URL ---------------------------------------------------------------------------


def test_search_finds_messages_paths_flags_and_ids(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    search = tab.get_by_role("searchbox")
    for query, expected in (
        ("fetch", ["FetchRequest"]),
        ("kip-853", ["VoteRequest"]),
        ("topicname", ["VoteRequest"]),
        ("a-bug VOTE", ["VoteRequest"]),
        ("00000000000000bb", ["FetchRequest"]),
    ):
        search.fill(query)
        assert rows(tab) == expected, query
    expect(tab.locator("#shown")).to_have_text("1 of 4 messages")
    search.fill("no such thing")
    assert rows(tab) == []
    tab.get_by_role("button", name="Show all").click()
    assert len(rows(tab)) == 4
    assert "#" not in tab.url


def test_only_failures_of_the_implementations_that_are_shown(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    tab.get_by_label("Only failures").check()
    assert rows(tab) == ["FetchRequest", "VoteRequest", "VoteRequest"]
    tab.get_by_text("Implementations", exact=True).click()
    tab.get_by_label("a/b, c 1.0").uncheck()
    assert rows(tab) == []
    tab.get_by_label("Only failures").uncheck()
    assert tab.locator("thead th:visible .name").all_inner_texts() == ["kraftspec"]
    assert tab.locator("td:visible").count() == 4


def test_what_is_all_skipped_is_hidden(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    tab.get_by_label("Hide what is all skipped").check()
    assert len(rows(tab)) == 4  # One of the two answered each.
    tab.get_by_text("Implementations", exact=True).click()
    tab.get_by_label("a/b, c 1.0").uncheck()
    tab.reload()
    assert rows(tab) == ["FetchRequest", "VoteRequest", "VoteRequest"]


def test_a_link_leads_to_the_same_view(tab: Page, small_page: str, browser: Browser) -> None:
    tab.goto(small_page)
    tab.get_by_role("searchbox").fill("vote")
    tab.locator("#set").select_option("kafka")
    tab.get_by_label("Only failures").check()
    cell(tab, "a/b, c", "VoteRequest").click()
    other = browser.new_page()
    other.goto(tab.url)
    expect(other.locator("#detail-title")).to_have_text("a/b, c · VoteRequest")
    expect(other.get_by_role("dialog")).to_be_visible()
    other.keyboard.press("Escape")
    assert rows(other) == ["VoteRequest"]
    expect(other.get_by_role("searchbox")).to_have_value("vote")
    expect(other.get_by_label("Only failures")).to_be_checked()
    other.close()
    tab.go_back()  # To where the cell was still closed.
    expect(tab.get_by_role("dialog")).to_be_hidden()
    assert rows(tab) == ["VoteRequest"]


def test_a_link_to_what_is_not_there_shows_the_matrix(tab: Page, small_page: str) -> None:
    tab.goto(f"{small_page}#cell=none/kafka/VoteRequest&set=kip-1&hide=nobody")
    expect(tab.get_by_role("dialog")).to_be_hidden()
    assert len(rows(tab)) == 4


# -- Keyboard --------------------------------------------------------------------------------------


def focused(tab: Page) -> str:
    label: str = tab.evaluate("document.activeElement.getAttribute('aria-label') || ''")
    return label


def test_the_matrix_is_one_stop_of_the_tab_key_and_arrows_move_in_it(
    tab: Page, small_page: str
) -> None:
    tab.goto(small_page)
    assert tab.locator('td[tabindex="0"]').count() == 1
    tab.locator('td[tabindex="0"]').focus()
    moves = (
        ("ArrowDown", "kraftspec, FetchRequest"),
        ("ArrowRight", "a/b, c, FetchRequest"),
        ("ArrowRight", "a/b, c, FetchRequest"),  # The edge holds.
        ("Home", "kraftspec, FetchRequest"),
        ("End", "a/b, c, FetchRequest"),
        ("Control+Home", "kraftspec: not in this run"),
        ("Control+End", "a/b, c, VoteRequest: version 0 unexpected pass"),
        ("PageUp", "a/b, c, ApiVersionsRequest"),
    )
    for key, label in moves:
        tab.keyboard.press(key)
        assert focused(tab).startswith(label), key
    assert tab.locator('td[tabindex="0"]').count() == 1
    outline = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_enter_opens_and_escape_returns_to_the_cell(tab: Page, small_page: str) -> None:
    tab.goto(small_page)
    cell(tab, "a/b, c", "FetchRequest").focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("dialog")).to_be_visible()
    expect(tab.locator("#detail-title")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_be_hidden()
    expect(cell(tab, "a/b, c", "FetchRequest")).to_be_focused()
    tab.keyboard.press("/")
    expect(tab.locator("#search")).to_be_focused()


def test_arrows_pass_over_what_is_filtered_away(tab: Page, small_page: str) -> None:
    tab.goto(f"{small_page}#q=vote")
    tab.locator('td[tabindex="0"]').focus()
    assert focused(tab).startswith("kraftspec, VoteRequest")
    tab.keyboard.press("ArrowUp")
    assert focused(tab).startswith("kraftspec, VoteRequest")


# -- Light, dark, phone ----------------------------------------------------------------------------


def background(tab: Page) -> int:
    """Return how light the page is, 0 to 255."""
    colour: str = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    return int(colour.removeprefix("rgb(").split(",")[0])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_machine_until_they_are_chosen(
    browser: Browser, small_page: str, scheme: str
) -> None:
    chosen = "dark" if scheme == "light" else "light"
    tab = browser.new_page(color_scheme="light" if scheme == "light" else "dark")
    tab.goto(small_page)
    assert (background(tab) > 128) == (scheme == "light")
    tab.get_by_role("button", name=f"{chosen.title()} colours").click()
    assert (background(tab) > 128) == (chosen == "light")

    def is_kept() -> bool:
        tab.reload()
        return (background(tab) > 128) == (chosen == "light")

    until(is_kept)  # Chromium may load the page before it has stored what the last one kept.
    tab.close()


def test_a_phone_needs_no_sideways_scrolling(phone: Page, small_page: str) -> None:
    phone.goto(small_page)
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert phone.evaluate(wide)
    assert phone.evaluate("innerWidth") == PHONE["width"]
    tapped = cell(phone, "a/b, c", "VoteRequest")
    label = tapped.evaluate("one => getComputedStyle(one, '::before').content")
    assert label == '"a/b, c"'  # Above the cell, where the column's head is out of sight.
    tapped.tap()
    dialog = phone.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert phone.evaluate(wide)
    assert dialog.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert dialog.evaluate("one => one.getBoundingClientRect().width") == PHONE["width"]
    dialog.get_by_label("Close").tap()
    phone.get_by_text("Implementations", exact=True).tap()
    box = phone.locator("#column-choices").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_that_axe_knows_is_wrong(browser: Browser, small_page: str, scheme: str) -> None:
    dark = scheme == "dark"
    context = browser.new_context(
        color_scheme="dark" if dark else "light", reduced_motion="reduce", bypass_csp=True
    )
    tab = context.new_page()
    tab.goto(small_page)
    with as_file(files("axe_playwright_python") / "axe.min.js") as script:
        tab.add_script_tag(path=script)
    checked = tab.evaluate("axe.run().then((found) => found.passes.map((one) => one.id))")
    assert {"color-contrast", "aria-required-children", "label"} <= set(checked)
    violations = "axe.run().then((found) => found.violations)"
    assert tab.evaluate(violations) == []
    cell(tab, "a/b, c", "VoteRequest").click()
    assert tab.evaluate(violations) == []
    context.close()


# -- Size ------------------------------------------------------------------------------------------


def test_a_big_report_is_usable(tab: Page, big_page: str) -> None:
    tab.goto(big_page)
    assert tab.locator("tr.row").count() > 270
    assert tab.evaluate("document.getElementsByTagName('*').length") < ELEMENT_COUNT_MAX
    tab.get_by_role("searchbox").fill("fetchsnapshot")
    assert rows(tab) == ["FetchSnapshotRequest", "FetchSnapshotResponse"]
    tab.get_by_role("searchbox").fill("")
    tab.locator('td[data-verdict="failed"]').first.click()
    assert " of " in tab.locator("#detail-body h3").first.inner_text()
    head = tab.locator("thead th").nth(1)
    tab.keyboard.press("Escape")
    tab.locator("#scroller").evaluate("one => one.scrollTo(0, 4000)")
    expect(head).to_be_in_viewport()  # The names of the columns stay in sight.


def test_the_picture_of_the_page_is_drawn(
    browser: Browser, small_page: str, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "report.png"
    screenshot(Path(small_page.removeprefix("file://")), out, width_px=800, height_px=600)
    header = out.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(header[16:20]), int.from_bytes(header[20:24])) == (800, 600)


def test_a_missing_browser_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BrowserError, match=r"install it with: .*chromium"):
        chromium()
