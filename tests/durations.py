"""Write where the time of a run of tests goes into docs/testing.md.

    python tests/durations.py build/tests/quick.xml

Each file is what `make test` and `make test-all` leave behind. A table replaces the one of the same
tier, below the line that names it.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

from kraftspec.words import between_marks

PAGE = Path(__file__).resolve().parents[1] / "docs" / "testing.md"
ROWS = 18


def table(path: Path) -> str:
    """Return the directories and modules that took longest, as a table."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for case in ET.parse(path).getroot().iter("testcase"):
        words = case.attrib["classname"].split(".")
        module = next((i for i, word in enumerate(words) if word.startswith("test_")), len(words))
        name = "/".join(words[: module + 1])
        seconds[name] += float(case.attrib["time"])
        counts[name] += 1
    longest = sorted(seconds, key=seconds.__getitem__, reverse=True)
    lines = ["| tests | number | seconds |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {counts[name]:,} | {seconds[name]:,.0f} |" for name in longest[:ROWS]]
    rest = longest[ROWS:]
    others = sum(counts[name] for name in rest), sum(seconds[name] for name in rest)
    lines.append(f"| {len(rest)} more modules | {others[0]:,} | {others[1]:,.0f} |")
    lines.append(f"| all | {sum(counts.values()):,} | {sum(seconds.values()):,.0f} |")
    return "\n".join(lines)


def replaced(page: str, tier: str, rows: str) -> str:
    """Return the page with a tier's table, which stands between two marks."""
    return between_marks(page, f"<!-- {tier} -->", f"<!-- end of {tier} -->", rows)


if __name__ == "__main__":
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    text = PAGE.read_text("utf-8")
    for argument in sys.argv[1:]:
        text = replaced(text, Path(argument).stem, table(Path(argument)))
    PAGE.write_text(text, "utf-8")
