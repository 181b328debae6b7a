"""The compiled TypeScript codecs in Chromium, as they are: the page of the documentation."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from kraftspec.conformance.adapters.registry import find

PAGE = Path(__file__).resolve().parents[2] / "docs" / "typescript.md"

pytestmark = [pytest.mark.peers, pytest.mark.browser]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The page's example and the codecs beside it, served on loopback."""
    [example] = re.findall(r"^```html\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.DOTALL)
    (tmp_path / "index.html").write_text(f"<!doctype html><title>-</title>{example}")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "src").symlink_to(find("kraftspec-typescript").command()[2])
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_page_decodes_without_a_bundler(address: str, browser: Browser) -> None:
    loaded: list[str] = []
    tab = browser.new_page()
    tab.on("response", lambda response: loaded.append(response.url))
    tab.goto(address)
    tab.wait_for_function("document.title === '2'", timeout=120_000)
    kafka = "(await import('./dist/src/kafka/index.js'))"
    name = tab.evaluate(f"async () => (await {kafka}.load('FetchRequest')).name")
    tab.close()
    assert name == "FetchRequest"
    # Of the messages, only what was asked for.
    messages = {url.rpartition("/")[2] for url in loaded if "/kafka/" in url}
    assert messages == {"vote_request.js", "index.js", "fetch_request.js"}
