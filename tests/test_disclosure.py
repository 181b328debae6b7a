"""What is embargoed (SECURITY.md) is in nothing that is published, and holds a release back."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest

from .release_check import EMBARGO, EMBARGOED, HeaderError, Page, check, pages, read

ROOT = Path(__file__).resolve().parents[1]
TOLD = date(2026, 1, 10)
SENTENCE_CHARS = 50  # A shorter one may stand elsewhere by chance.

# ------------------------------------------------------------------------------- the release check


def put(folder: Path, name: str = "KS-2026-99", **changed: str) -> Path:
    """Write a page; ``changed`` are TOML values."""
    facts = {
        "title": '"a title"',
        "project": '"a project"',
        "releases": '["1.0"]',
        "fixed_in": '""',
        "class": '"crash"',
        "found": "2026-01-02",
        "told": '""',
        "public_since": '""',
    } | changed
    lines = "".join(f"{key} = {value}\n" for key, value in facts.items() if value)
    path = folder / f"{name}.md"
    path.write_text(f"+++\n{lines}+++\n\n# a title\n")
    return path


@pytest.mark.parametrize(
    ("changed", "today", "blocks"),
    [
        ({}, date(2036, 1, 1), True),  # However long ago: nobody was told.
        ({"told": "2026-01-10"}, TOLD, True),
        ({"told": "2026-01-10"}, TOLD + timedelta(days=89), True),
        ({"told": "2026-01-10"}, TOLD + timedelta(days=90), False),
        ({"told": "2026-01-10", "fixed_in": '"1.1"'}, TOLD, False),
        ({"fixed_in": '"1.1"'}, TOLD, False),
        ({"public_since": '"https://example.org/issue/1"'}, TOLD, False),
    ],
)
def test_what_blocks(tmp_path: Path, changed: dict[str, str], today: date, blocks: bool) -> None:
    put(tmp_path, **changed)
    (line,), code = check(tmp_path, today)
    assert (code, line.startswith("BLOCKS")) == (int(blocks), blocks)


def test_each_is_listed_with_its_day(tmp_path: Path) -> None:
    put(tmp_path, "KS-1", told="2026-01-10")
    put(tmp_path, "KS-2")
    put(tmp_path, "KS-3", fixed_in='"1.1"')
    lines, code = check(tmp_path, TOLD)
    assert code == 1
    assert lines == [
        "BLOCKS  KS-1  a project: from 2026-04-10 on",
        "BLOCKS  KS-2  a project: 90 days after its maintainers were told: nobody was told",
        "free    KS-3  a project: now: fixed in 1.1",
    ]
    assert read(tmp_path / "KS-1.md").free_on == TOLD + EMBARGO == date(2026, 4, 10)


def test_nothing_embargoed_blocks_nothing(tmp_path: Path) -> None:
    assert check(tmp_path, TOLD) == ([], 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"told": ""},  # The key is missing.
        {"told": '"soon"'},
        {"told": "2026-01-10T10:00:00"},
        {"found": '""'},
        {"class": '"harmless"'},
        {"project": '""'},
        {"severity": '"high"'},
        {"fixed_in": "true"},
        {"title": "no TOML"},
    ],
)
def test_a_header_that_cannot_be_read_blocks(tmp_path: Path, changed: dict[str, str]) -> None:
    path = put(tmp_path, **changed)
    with pytest.raises(HeaderError, match=r"KS-2026-99\.md"):
        read(path)
    assert check(tmp_path, date(2036, 1, 1))[1] == 1


def test_a_page_without_a_header_blocks(tmp_path: Path) -> None:
    (tmp_path / "KS-1.md").write_text("# No header\n")
    assert check(tmp_path, TOLD)[1] == 1


def test_the_pages_can_be_read() -> None:
    all_pages = pages()
    assert all_pages
    for page in all_pages:
        assert re.fullmatch(r"KS-20\d\d-\d\d", page.number)
        assert page.body.startswith(f"\n# {page.title}\n"), page.number
        assert page.told is None or page.told >= page.found
    assert {path.stem for path in EMBARGOED.iterdir()} == {page.number for page in all_pages}


# -------------------------------------------------------------------------------- what is published


@cache
def packed(base: Path) -> frozenset[str]:
    """Return the files of an sdist; a wheel has a part of them, and what is compiled of them.

    ``kraftspec conform export`` takes its files from the package, so they are among these.
    """
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(base)],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    (sources,) = base.glob("*/SOURCES.txt")
    return frozenset(sources.read_text("utf-8").splitlines())


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the files that packages and the site are made of, by name."""
    names = packed(tmp_path_factory.mktemp("egg"))
    assert {"src/kraftspec/conformance/known/kio.toml", "README.md"} <= names
    site = (path for path in (ROOT / "docs").rglob("*") if path.is_file())
    files = {name: ROOT / name for name in names}
    files |= {path.relative_to(ROOT).as_posix(): path for path in site}
    files |= {"mkdocs.yml": ROOT / "mkdocs.yml"}
    return {name: path for name, path in files.items() if path.is_file()}


def flat(text: str) -> str:
    """Return the words of a text, whatever lines and comments they stand in."""
    return " ".join(re.sub(r"^[ \t]*(#|//|\*|>)", " ", text, flags=re.MULTILINE).split())


def sentences(page: Page) -> list[str]:
    """Return the sentences and the lines of code that are long enough to be the page's own."""
    blocks = [flat(block.replace("`", "")) for block in re.split(r"\n\n|\n?```\n?", page.body)]
    parts = [part for block in blocks for part in re.split(r"(?<=[.:;!?]) ", block)]
    return [part for part in parts if len(part) >= SENTENCE_CHARS]


def test_the_site_is_made_of_docs_alone() -> None:
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "docs_dir: docs\n" in settings
    assert "embargoed" not in settings


def test_no_embargoed_file_is_published(published: dict[str, Path]) -> None:
    files = [path for path in EMBARGOED.parent.rglob("*") if path.is_file()]
    assert len(files) > len(pages())  # Examples of findings are among them, and the list.
    names = {path.name for path in files} - {"pom.xml", "README.md"}  # Others have these names.
    assert [name for name, path in published.items() if "embargoed" in name] == []
    assert [name for name, path in published.items() if path.name in names] == []
    assert {path.resolve() for path in published.values()} & {path.resolve() for path in files} == (
        set()
    )


def test_no_embargoed_sentence_is_published(published: dict[str, Path]) -> None:
    owned = {part: page.number for page in pages() for part in sentences(page)}
    assert {page.number for page in pages()} == set(owned.values())
    told = []
    for name, path in published.items():
        # Written by programs, from Kafka's classes and our schemas: 50 MB without a sentence.
        if name.startswith(("src/kraftspec/generated/", "src/kraftspec/conformance/vectors/")):
            continue
        text = flat(path.read_bytes().decode("utf-8", "replace").replace("`", ""))
        told += [f"{name}: {number}: {part}" for part, number in owned.items() if part in text]
    assert told == []


def test_a_known_failure_gives_the_number_alone() -> None:
    numbers = {page.number for page in pages()}
    files = [*(ROOT / "conformance/known").glob("*.toml")]
    files += (ROOT / "conformance/clients/known").glob("*.toml")
    files += (ROOT / "simulation/harness").glob("*/known.toml")
    entries = [
        entry
        for path in files
        for kind in tomllib.loads(path.read_text("utf-8")).values()
        for entry in kind
    ]
    reasons = [f"{entry.get('finding', '')}: {entry['reason']}" for entry in entries]
    embargoed = [reason.removeprefix(": ") for reason in reasons if "KS-" in reason]
    assert len(files) > 1
    assert embargoed
    for reason in embargoed:
        number, _, rest = reason.partition(": ")
        assert number in numbers
        assert rest == "embargoed, see SECURITY.md"
