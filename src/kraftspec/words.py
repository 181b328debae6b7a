"""What commands and pages say alike; importing it loads nothing."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, noun: str) -> str:
    """Return ``1 file``, ``2 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def between_marks(page: str, begin: str, end: str, text: str) -> str:
    """Return a page whose lines between two marks are ``text``.

    Raises ValueError if it has not the first mark once, and the second behind it.
    """
    before, _, rest = page.partition(begin)
    _, mark, after = rest.partition(end)
    if page.count(begin) != 1 or not mark:
        raise ValueError(f"the page has no lines {begin!r} and {end!r}: nowhere to write to")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def alike(name: str, names: Iterable[str]) -> str:
    """Return what a person may have meant, to end a sentence with; nothing if nothing is near."""
    meant = " or ".join(nearest(name, names))
    return f"; did you mean {meant}?" if meant else ""


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return the names that look most like one that is not among them, in any case of letters."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for mistakes

    folded = {known.lower(): known for known in names}
    return [folded[match] for match in get_close_matches(name.lower(), folded, count, 0.75)]
