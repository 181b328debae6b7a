"""What is known of an implementation: ``known.toml`` in its folder.

A run that breaks a property in a known way is named with the reason, and is no new finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache

import msgspec

from kraftspec.simulation.harness.cores import FOLDER, Core

FILE = "known.toml"


class KnownBreach(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault: which property it breaks, and a pattern of what is said then.

    ``releases`` are patterns of the releases that have it, ``finding`` is its id: the name
    of a page in ``docs/findings``, or the number of one that is embargoed (SECURITY.md).
    """

    property: str
    text: str
    releases: tuple[str, ...]
    reason: str
    finding: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    breach: tuple[KnownBreach, ...]


@cache
def known_of(name: str) -> tuple[KnownBreach, ...]:
    """Return what is known of an implementation, by the name of its folder.

    Raises:
        ValueError: the file is not as it should be; names it.
    """
    path = FOLDER / name / FILE
    if not path.is_file():
        return ()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File).breach
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}") from error


def known_breach(cores: Iterable[Core], violation: tuple[str, str]) -> KnownBreach | None:
    """Return the known fault of one of these cores that explains a broken property."""
    name, text = violation
    for core in cores:
        folder, release = core.folder_and_release
        for known in known_of(folder):
            if (
                known.property == name
                and re.search(known.text, text)
                and any(fnmatchcase(release, pattern) for pattern in known.releases)
            ):
                return known
    return None
