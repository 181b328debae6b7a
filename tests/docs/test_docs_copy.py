"""The copy button of the documentation: commands, without their prompts and output."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
PAGE = """# A page

```console
$ echo '{"a":1}' |
> python -m json.tool
{
    "a": 1
}
$ true
```
"""

pytestmark = pytest.mark.browser


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


def test_a_session_is_copied_as_its_commands(browser: Browser, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(PAGE)
    config = load_config(
        str(ROOT / "mkdocs.yml"),
        docs_dir=str(docs),
        site_dir=str(tmp_path / "site"),
        nav=[{"A page": "index.md"}],
    )
    build(config)
    handler = partial(Quiet, directory=tmp_path / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        tab = context.new_page()
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        tab.locator("pre").hover()
        tab.locator(".md-code__button, .md-clipboard").first.click()
        tab.wait_for_function("navigator.clipboard.readText().then((text) => text.length > 0)")
        copied = tab.evaluate("navigator.clipboard.readText()")
        context.close()
        server.shutdown()
    assert copied == """echo '{"a":1}' |\npython -m json.tool\ntrue"""
