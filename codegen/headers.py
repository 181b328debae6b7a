"""Which header goes before the messages of each API: ``header_version_of`` over a set of specs.

What ``kraftspec spec headers`` prints, and the table of docs/headers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from kraftspec.codegen.model import Message
from kraftspec.fastpath.message import header_version_of
from kraftspec.words import between_marks

Kind = Literal["request", "response"]

BEGIN: Final = "<!-- kraftspec spec headers --write: from here -->"
END: Final = "<!-- to here -->"


class HeaderVersions(NamedTuple):
    """The versions of the headers before a request and before its response."""

    request: int
    response: int


class ApiHeaders(NamedTuple):
    """The headers of an API, by version of its messages."""

    key: int
    name: str
    versions: dict[int, HeaderVersions]

    def with_header(self, kind: Kind, header: int) -> str:
        """Return which versions of the API have a header: ``0-8``; empty for none."""
        versions = [v for v, headers in self.versions.items() if getattr(headers, kind) == header]
        return ", ".join(
            str(first) if first == last else f"{first}-{last}" for first, last in _runs(versions)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the API as JSON, with one object for each of its versions."""
        return {
            "key": self.key,
            "api": self.name,
            "versions": [
                {"version": version, **headers._asdict()}
                for version, headers in self.versions.items()
            ],
        }


def api_headers(messages: Iterable[Message]) -> list[ApiHeaders]:
    """Return the headers of each API of a set, by key; messages without a header are left out.

    An API that has no version left has no headers either. ``KeyError`` where a request has no
    response.
    """
    by_type: dict[str, dict[int, Message]] = {"request": {}, "response": {}}
    for message in messages:
        if message.type in by_type and message.api_key is not None:
            by_type[message.type][message.api_key] = message
    return [
        ApiHeaders(
            key,
            request.name.removesuffix("Request"),
            {
                version: HeaderVersions(
                    _header(request, version), _header(by_type["response"][key], version)
                )
                for version in request.valid_versions
            },
        )
        for key, request in sorted(by_type["request"].items())
    ]


def _header(message: Message, version: int) -> int:
    flexible = version in message.flexible_versions
    header = header_version_of(message.type, message.api_key, version, flexible)
    assert header is not None
    return header


def _runs(versions: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of numbers without a gap."""
    starts = [v for v in versions if v - 1 not in versions]
    ends = [v for v in versions if v + 1 not in versions]
    return zip(starts, ends, strict=True)


def columns(apis: list[ApiHeaders]) -> list[tuple[Kind, int]]:
    """Return the headers that occur, those of requests first: the columns of a table."""
    kinds: tuple[Kind, ...] = ("request", "response")
    return [
        (kind, header)
        for kind in kinds
        for header in sorted({getattr(h, kind) for api in apis for h in api.versions.values()})
    ]


def without_versions(apis: list[ApiHeaders]) -> str:
    """Return a sentence that names the APIs that have no version left; empty if all have one."""
    gone = [f"{api.name} ({api.key})" for api in apis if not api.versions]
    return f"Without versions, and so without headers: {', '.join(gone)}." if gone else ""


def write_page(page: Path, apis: list[ApiHeaders]) -> bool:
    """Write the table between the marks of a page; return whether the page changed.

    Raises ``ValueError`` if the page has no marks.
    """
    text = page.read_text("utf-8")
    written = between_marks(text, BEGIN, END, "\n".join(_markdown(apis)))
    if written != text:
        page.write_text(written, "utf-8")
    return written != text


def _markdown(apis: list[ApiHeaders]) -> Iterator[str]:
    shown = columns(apis)
    yield "".join(["| key | API |", *(f" {kind} header {number} |" for kind, number in shown)])
    yield "| ---: | --- |" + " --- |" * len(shown)
    for api in apis:
        cells = [api.with_header(kind, number) for kind, number in shown]
        if api.versions:
            yield "".join([f"| {api.key} | {api.name} |", *(f" {cell} |" for cell in cells)])
    gone = without_versions(apis)
    if gone:
        yield ""
        yield gone
