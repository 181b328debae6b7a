"""A page in one file that fetches nothing: the frame, the style and the rules of all pages.

A page's template says ``{% extends "page.html.jinja" %}`` and fills the blocks ``content`` and
``footer``; ``buttons`` stand in the header, and what is in ``end`` stands before the script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from kraftspec import __version__
from kraftspec.words import counted

FRAME = "page.html.jinja"
_HERE = files("kraftspec.conformance") / "report"


def render(
    template: Traversable,
    *,
    css: str = "",
    js: str = "",
    filters: Mapping[str, Callable[..., str]] | None = None,
    **values: Any,
) -> str:
    """Return the HTML of a page; ``values`` has its ``title``, its ``subtitle`` and the rest.

    Args:
        template: the file of the page's own template.
        css: style of this page, behind that of all pages.
        js: its script. Nothing else on the page may run.
        filters: those of this page, beside ``number`` and ``counted``.
        values: what the template is filled with; text is escaped.
    """
    environment = Environment(
        loader=DictLoader({FRAME: (_HERE / FRAME).read_text("utf-8")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": "{:,}".format, "counted": counted, **(filters or {})}
    css = (_HERE / "page.css").read_text("utf-8") + css
    page = environment.from_string(template.read_text("utf-8")).render(
        css=Markup(css),
        js=Markup(js),
        csp_hash=_csp_hash,
        kraftspec_version=__version__,
        **values,
    )
    return page + "\n"


def _csp_hash(text: str) -> str:
    """Return the source expression of a text in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
