"""The page of an audit in a real Chromium: on a desk, on a phone, in the dark, without scripts."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from kraftspec.pipeline.audit import audit
from kraftspec.pipeline.audit.page import (
    FINDINGS_OF_A_KIND_MAX,
    PARTITIONS_MAX,
    bars,
    bytes_text,
    page,
    time_text,
)

from .audit_logs import batch, marker, produced, write

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 360, "height": 740}
NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two topics, one of them with findings of several kinds."""
    root = tmp_path_factory.mktemp("logs") / NASTY.replace("/", "")
    bad = bytearray(batch(10, 30))
    bad[99] ^= 1
    segments = [
        [batch(0), produced(3, 0, transactional=True), marker(6), batch(7), bytes(bad)],
        [batch(90 + 10 * number) for number in range(40)],
    ]
    write(root, segments, topic="payments-of-a-shop.that-has-a-long-name_" * 3)
    write(root, [[batch(0), produced(3, 0, transactional=True)]], topic="orders")
    file = tmp_path_factory.mktemp("page") / "audit.html"
    file.write_text(page(audit(root)), "utf-8")
    return file


def opened(
    browser: Browser, file: Path, size: ViewportSize, scheme: Literal["light", "dark"] = "light"
) -> Page:
    """Open the page; nothing may be logged, thrown or fetched."""
    tab = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True).new_page()
    output: list[str] = []
    tab.on("console", lambda message: output.append(message.text))
    tab.on("pageerror", lambda error: output.append(str(error)))
    tab.on("dialog", lambda dialog: output.append(dialog.message))
    requested: list[str] = []
    tab.on("request", lambda request: requested.append(request.url))
    tab.goto(file.as_uri())
    assert output == []
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    return tab


def test_it_says_what_was_found_and_where(browser: Browser, page_path: Path) -> None:
    tab = opened(browser, page_path, DESKTOP)
    expect(tab.locator("#verdict")).to_contain_text("40 errors")
    expect(tab.locator("#verdict")).to_contain_text("1 note")
    kinds = tab.locator("details.kind")
    assert kinds.locator("summary strong").all_inner_texts() == [
        "offset_gap", "damage", "transaction_open",
    ]  # fmt: skip
    assert kinds.first.locator("li").count() == FINDINGS_OF_A_KIND_MAX + 1
    assert kinds.first.locator("li.more").inner_text() == "and 14 more"
    kinds.nth(1).locator("summary").click()
    expect(kinds.nth(1).locator("li")).to_be_visible()
    text = kinds.nth(1).locator("li").inner_text()
    for output in ("byte ", "offset 10", "crc_mismatch", "<script>alert(1)<script>"):
        assert output in text
    tab.context.close()


def test_charts_show_the_numbers(browser: Browser, page_path: Path) -> None:
    tab = opened(browser, page_path, DESKTOP)
    captions = tab.locator("table.chart caption").all_inner_texts()
    assert [one.split()[0] for one in captions] == [
        "Topics", "Topics,", "Codecs", "Batch", "Keys", "Values", "Control",
    ]  # fmt: skip
    first = tab.locator("table.chart").first
    widths = [
        one.evaluate("one => one.getBoundingClientRect().width")
        for one in first.locator("rect").all()
    ]
    assert widths[0] > widths[1] > 0
    assert first.locator("tr").count() == 2
    # One mark a finding that is kept, at its place of the partition.
    strips = tab.locator("figure.strip")
    assert strips.count() == 2
    assert strips.first.locator("rect.error").count() == 40
    assert strips.first.locator("rect.file").count() == 2
    assert strips.nth(1).locator("rect.note").count() == 1
    tab.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_that_axe_knows_is_wrong(
    browser: Browser, page_path: Path, scheme: Literal["light", "dark"]
) -> None:
    tab = opened(browser, page_path, DESKTOP, scheme)
    back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(back.removeprefix("rgb(").split(",")[0]) > 128) == (scheme == "light")
    for summary in tab.locator("summary").all():
        summary.click()
    with as_file(files("axe_playwright_python") / "axe.min.js") as script:
        tab.add_script_tag(path=script)
    assert "color-contrast" in tab.evaluate("axe.run().then((f) => f.passes.map((one) => one.id))")
    assert tab.evaluate("axe.run().then((found) => found.violations)") == []
    tab.context.close()


def test_a_phone_needs_no_sideways_scrolling(browser: Browser, page_path: Path) -> None:
    tab = opened(browser, page_path, PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.context.close()


def test_a_page_of_many_partitions_stays_small(tmp_path: Path) -> None:
    for number in range(PARTITIONS_MAX + 20):
        directory = tmp_path / f"t-{number}"
        directory.mkdir()
        (directory / f"{0:020}.log").write_bytes(batch(0) if number % 2 else batch(0)[:-9])
    text = page(audit(tmp_path))
    assert "And 20 more; the JSON has them all." in text
    assert len(text) < 500_000


def test_the_smallest_log_has_a_page(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"")
    text = page(audit(tmp_path))
    assert "No errors" in text
    assert "No errors" in page(audit(directory))


def test_texts() -> None:
    assert [bytes_text(size) for size in (0, 999, 1000, 1_234_567, 999e9, 5e15)] == [
        "0 B", "999 B", "1 kB", "1.23 MB", "999 GB", "5,000 TB",
    ]  # fmt: skip
    assert time_text(1_700_000_000_000) == "2023-11-14 22:13:20"
    assert time_text(1 << 62) == f"{1 << 62} ms"
    assert time_text(-1) == "\u2013"
    many = bars((str(number), 1) for number in range(30))
    assert (len(many), many[-1].label, many[-1].text) == (24, "7 more", "7")
