"""What a release of Kafka serves, as its message schemas have it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kraftspec.codegen.history.states import packaged_history


@cache
def newest_versions(release: str) -> Mapping[int, int]:
    """Return the newest version of each API that a release has, by key.

    KeyError for a release that ``specs/history.json`` does not have.
    """
    return {
        spec["apiKey"]: int(spec["validVersions"].rpartition("-")[2])
        for spec in packaged_history().state(release).values()
        if spec["type"] == "request" and spec["validVersions"] != "none"
    }
