"""APIs: their two messages, by key or by name, and the versions that two sides share."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message

Versions = dict[int, range]  # API key → the versions that a node serves.


class Api(NamedTuple):
    """An API: its key and name, the versions that are served, both included, and its messages."""

    key: int
    name: str
    min_version: int
    max_version: int
    request: type[Message]
    response: type[Message]

    @classmethod
    def of(
        cls, request: type[Message], response: type[Message], min_version: int | None = None
    ) -> Api:
        """Return the API of two messages; ``min_version`` where not all versions are served."""
        assert request.API_KEY is not None
        versions = request.VALID_VERSIONS
        first = versions.start if min_version is None else min_version
        return cls(request.API_KEY, api_name(request), first, versions.stop - 1, request, response)


def api_name(request: type[Message]) -> str:
    """Return the name of the API of a request: ``Vote`` of ``VoteRequest``."""
    return request.__name__.removesuffix("Request")


def common_version(ours: range, theirs: range | None) -> int | None:
    """Return the newest version that both sides have; None where there is none."""
    if theirs is None:
        return None
    both = range(max(ours.start, theirs.start), min(ours.stop, theirs.stop))
    return both[-1] if both else None


def message_of(
    package: ModuleType, kind: Literal["request", "response"], api_key: int
) -> type[Message] | None:
    """Return the request or the response of an API key from a package of generated messages."""
    name = _names(package, kind).get(api_key)
    message: type[Message] | None = None if name is None else getattr(package, name)
    return message


@cache
def _names(package: ModuleType, kind: str) -> dict[int, str]:
    return {row[2]: name for name, row in package.CATALOGUE.items() if row[1] == kind}
