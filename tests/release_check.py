"""May the project be published? Not while a finding is embargoed: SECURITY.md has the rule.

python tests/release_check.py
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

EMBARGOED = Path(__file__).resolve().parents[1] / "findings/embargoed"
EMBARGO = timedelta(days=90)
CLASSES = ("safety", "crash", "hang", "exhaustion")
_FENCE = "+++\n"
_TEXTS = ("title", "project", "class", "fixed_in", "public_since")


class HeaderError(Exception):
    """The header of a page cannot be read, or lacks something."""


@dataclass(frozen=True)
class Page:
    """An embargoed finding: its header, and the text below it."""

    number: str
    title: str
    project: str
    found: date
    told: date | None
    fixed_in: str
    public_since: str
    body: str

    @property
    def free_on(self) -> date | None:
        """The day from which on it may be published without a fix; None: nobody was told."""
        return self.told + EMBARGO if self.told else None

    def blocks(self, today: date) -> bool:
        """Whether the project must not be published today because of it."""
        if self.fixed_in or self.public_since:
            return False
        return self.free_on is None or today < self.free_on

    def verdict(self, today: date) -> str:
        """Say when it may be published, and why."""
        if self.public_since:
            when = f"now: public ({self.public_since})"
        elif self.fixed_in:
            when = f"now: fixed in {self.fixed_in}"
        elif self.free_on is None:
            when = f"{EMBARGO.days} days after its maintainers were told: nobody was told"
        else:
            when = f"from {self.free_on} on"
        state = "BLOCKS" if self.blocks(today) else "free"
        return f"{state:6}  {self.number}  {self.project}: {when}"


def read(path: Path) -> Page:
    """Read one page.

    Raises:
        HeaderError: the header is not TOML between two lines of ``+++``, or lacks a key.
    """
    before, _, rest = path.read_text("utf-8").partition(_FENCE)
    header, fence, body = rest.partition(_FENCE)
    if before or not fence:
        raise HeaderError(f"{path.name}: no header between two lines of +++")
    try:
        facts = tomllib.loads(header)
    except tomllib.TOMLDecodeError as error:
        raise HeaderError(f"{path.name}: {error}") from error
    _check(path.name, facts)
    return Page(
        number=path.stem,
        title=facts["title"],
        project=facts["project"],
        found=facts["found"],
        told=facts["told"] or None,
        fixed_in=facts["fixed_in"],
        public_since=facts["public_since"],
        body=body,
    )


def _check(name: str, facts: dict[str, Any]) -> None:
    expected = {*_TEXTS, "releases", "found", "told"}
    if facts.keys() != expected:
        raise HeaderError(f"{name}: wrong or missing keys {sorted(facts.keys() ^ expected)}")
    wrong = [key for key in _TEXTS if not isinstance(facts[key], str)]
    wrong += [key for key in ("title", "project", "releases") if not facts[key]]
    if facts["class"] not in CLASSES:
        wrong.append("class")
    # A time of day is a date to Python, and cannot be compared with one.
    if type(facts["found"]) is not date:
        wrong.append("found")
    if facts["told"] != "" and type(facts["told"]) is not date:
        wrong.append("told")
    if wrong:
        raise HeaderError(f"{name}: wrong values of {sorted(set(wrong))}")


def pages(folder: Path = EMBARGOED) -> list[Page]:
    """Read all pages of a directory."""
    return [read(path) for path in sorted(folder.glob("*.md"))]


def check(folder: Path, today: date) -> tuple[list[str], int]:
    """Return a line for each page, and the exit code: 1 if the project must not be published."""
    try:
        listed = pages(folder)
    except HeaderError as error:  # What cannot be read may be anything.
        return [str(error)], 1
    lines = [page.verdict(today) for page in listed]
    return lines, int(any(page.blocks(today) for page in listed))


if __name__ == "__main__":
    text, code = check(EMBARGOED, datetime.now(UTC).date())
    print("\n".join(text) or "No finding is embargoed.")
    sys.exit(code)
