"""The tables of ``docs/drafts``: what a row names exists, and each transcript stands in a row.

A page has the name of its profile. Its tables have one row a sentence of a draft; a transcript of
that profile says which of those sentences it shows, in the words of the row::

    # Source: 000, Quorum Reassignment 3: "pick one of NewVoters as NV"
"""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kraftspec.reference.profiles import parts_of, profile_named

ROOT = Path(__file__).resolve().parents[2]
TRANSCRIPTS = ROOT / "tests" / "transcripts"
PAGES = sorted((ROOT / "docs" / "drafts").glob("*.md"))

HEADER = ["sentence", "done by", "transcript", "test"]
# On each page above its tables. Where a test is says whether its nodes speak over TCP.
RULE = (
    "*Test* names tests. Those in `tests/reference/node`, `tests/reference/admin` and `tests/cli` "
    "run nodes over TCP, except those of `test_profiles_config`, `test_profiles_directories` and "
    "`test_records_that_take_a_voter_away_are_read`, which are about files and properties. The "
    "others call the code or the simulator. A row that no node over TCP shows says why, after "
    "*not live*."
)
LIVE = ("tests/reference/node/", "tests/reference/admin/", "tests/cli/")
ABOUT_FILES = re.compile(
    r"/test_profiles_(config|directories)\.py::|::test_records_that_take_a_voter_away_are_read$"
)
# What begins a node in a process or on an event loop, or a peer of one.
STARTERS = {"Stage", "LocalQuorum", "Processes", "Popen", "make_node"}
NOTHING = "\N{EN DASH}"
# A row without a transcript and a test begins with one of these, and says more after it.
REASONS = ("Background:", "Not done:", "Impossible:")
REASON_LENGTH_MIN = 20

NOT_LIVE = "*not live*: "

_CELLS = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`([^`]+)`")
_SENTENCE = re.compile(r'(?P<documents>\d{3}(, \d{3})*) (?P<place>[^":]+): "(?P<quote>[^"]+)"')
_SOURCE = re.compile(r'# Source: (?P<document>\d{3}), (?P<place>[^":]+): "(?P<quote>[^"]+)"')
_WITHOUT = "--without "
_SOFTENED_BY = re.compile(r"softened by ((?:`[^`]+`(?:, )?)+)")
# A row of the table in docs/drafts.md: how a fix relates to the text, and to which places of it.
_FIX = re.compile(
    r"\| (?P<profile>kip-\d+) \| `(?P<fix>[^`]+)` "
    r"\| (?P<relation>softens|beside|is) (?P<places>\d{3} [^|]+) \|"
)
_PLACES = re.compile(r", (?=\d{3} )")


class Row(NamedTuple):
    """A sentence, and who does, plays and tests it."""

    line: int
    sentence: str
    done_by: str
    transcript: str
    test: str

    @property
    def transcripts(self) -> list[str]:
        return _CODE.findall(self.transcript)

    @property
    def tests(self) -> list[str]:
        return _CODE.findall(self.test)


@cache
def rows_of(page: Path) -> list[Row]:
    """Return the rows of a page's tables; each table of it is one of sentences."""
    rows = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]]
        if cells and cells != HEADER and set(cells) != {"---"}:
            assert len(cells) == len(HEADER), f"{page.name}:{number} has {len(cells)} cells"
            rows.append(Row(number, *cells))
    return rows


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names of the functions of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@cache
def parts_in(path: Path) -> dict[str, tuple[Path, frozenset[str]]]:
    """Return the functions, classes and imported tests of a file: where, and what each names."""
    parts = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = list(ast.walk(node))
            names = {one.id for one in inside if isinstance(one, ast.Name)}
            names |= {one.attr for one in inside if isinstance(one, ast.Attribute)}
            names |= {one.arg for one in inside if isinstance(one, ast.arg)}  # Fixtures.
            parts[node.name] = path, frozenset(names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            source = ROOT / f"{(node.module or '').replace('.', '/')}.py"
            known = parts_in(source) if source.is_file() else {}
            parts.update({a.name: known[a.name] for a in node.names if a.name in known})
    return parts


def starts_nodes(test: str) -> bool:
    """Whether a test, or what it calls in the tests, begins nodes."""
    path, _, name = test.partition("::")
    seen: set[tuple[Path, str]] = set()
    ahead = [(ROOT / path, name)]
    while ahead:
        where, name = ahead.pop()
        source, names = parts_in(where).get(name, (where, frozenset()))
        if STARTERS & {name, *names}:
            return True
        ahead += [(source, one) for one in names if (source, one) not in seen]
        seen.update(ahead)
    return False


def is_done_by(name: str, profile: str) -> bool:
    """Whether this is a file, a fix of the profile, or a module, class or function of ours."""
    if name.startswith(_WITHOUT) or name in profile_named(profile).fixes:
        return name.removeprefix(_WITHOUT) in profile_named(profile).fixes
    if "/" in name:
        return (ROOT / name).exists()
    package = profile.replace("-", "_")
    rooms = (f"reference.profiles.{package}", "reference", f"generated.{package}")
    for room in (*rooms, ""):
        try:
            pkgutil.resolve_name(".".join(["kraftspec", *filter(None, [room]), name]))
        except (ImportError, AttributeError):
            continue
        return True
    return False


def where(page: Path, row: Row) -> str:
    return f"{page.name}:{row.line}: {row.sentence}"


def test_there_are_pages() -> None:
    assert PAGES
    for page in PAGES:
        assert parts_of(page.stem).name == page.stem


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_row_is_a_sentence_once(page: Path) -> None:
    rows = rows_of(page)
    assert rows
    assert [where(page, row) for row in rows if not _SENTENCE.fullmatch(row.sentence)] == []
    sentences = [row.sentence for row in rows]
    assert [sentence for sentence in sentences if sentences.count(sentence) > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_row_has_a_transcript_a_test_or_a_reason(page: Path) -> None:
    for row in rows_of(page):
        assert "" not in row, where(page, row)
        if row.done_by.startswith(REASONS):
            assert len(row.done_by.partition(":")[2]) > REASON_LENGTH_MIN, where(page, row)
        else:
            assert _CODE.search(row.done_by), where(page, row)
            assert (row.transcript, row.test) != (NOTHING, NOTHING), where(page, row)


def missing(page: Path, row: Row) -> Iterator[str]:
    """Yield what a row names and there is not."""
    for name in _CODE.findall(row.done_by):
        if not is_done_by(name, page.stem):
            yield name
    for name in row.transcripts:
        if not (TRANSCRIPTS / page.stem / f"{name}.txt").is_file():
            yield name
    for test in row.tests:
        path, _, name = test.partition("::")
        if not (ROOT / path).is_file() or name not in names_in(ROOT / path):
            yield test
    for cell in (row.transcript, row.test):
        if cell != NOTHING and not _CODE.search(cell):
            yield cell


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_row_names_exists(page: Path) -> None:
    rows = rows_of(page)
    assert [f"{where(page, row)} {name}" for row in rows for name in missing(page, row)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_where_a_test_is_says_whether_its_nodes_speak_over_tcp(page: Path) -> None:
    assert RULE in " ".join(page.read_text("utf-8").split())
    tests = {test for row in rows_of(page) for test in row.tests}
    rest = {test for test in tests if not ABOUT_FILES.search(test)}
    assert {test for test in rest if starts_nodes(test)} == {*filter(is_live, rest)}


def is_live(test: str) -> bool:
    return test.startswith(LIVE) and not ABOUT_FILES.search(test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_row_has_a_live_test_or_says_why_not(page: Path) -> None:
    for row in rows_of(page):
        if row.done_by.startswith(REASONS) and row.test == NOTHING:
            continue
        _, _, reason = row.test.partition(NOT_LIVE)
        assert any(map(is_live, row.tests)) is not bool(reason), where(page, row)
        assert not reason or len(reason) > REASON_LENGTH_MIN, where(page, row)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_transcript_says_which_sentence_it_shows(page: Path) -> None:
    shown: dict[tuple[str | Any, ...], list[str]] = {}
    for row in rows_of(page):
        match = _SENTENCE.fullmatch(row.sentence)
        assert match, where(page, row)
        for document in match["documents"].split(", "):
            shown[document, match["place"], match["quote"]] = row.transcripts
    wrong = []
    for path in sorted((TRANSCRIPTS / page.stem).glob("*.txt")):
        lines = path.read_text("utf-8").splitlines()
        sources = [line for line in lines if line.startswith("# Source:")]
        matches = [_SOURCE.fullmatch(line) for line in sources]
        wrong += [
            f"{path.stem}: {line}"
            for line, match in zip(sources, matches, strict=True)
            if match is None or path.stem not in shown.get(match.groups(), ())
        ]
        wrong += [path.stem] if not sources else []
    assert wrong == []


def softeners_in(text: str) -> set[str]:
    return {name for names in _SOFTENED_BY.findall(text) for name in _CODE.findall(names)}


class FixRow(NamedTuple):
    """A row of the table of fixes: whether the fix softens the text, and which places of it."""

    profile: str
    fix: str
    softens: bool
    places: frozenset[str]


def fix_rows() -> list[FixRow]:
    text = (ROOT / "docs" / "drafts.md").read_text("utf-8")
    return [
        FixRow(
            row["profile"],
            row["fix"],
            row["relation"] == "softens",
            frozenset(_PLACES.split(row["places"])),
        )
        for row in _FIX.finditer(text)
    ]


def test_the_table_of_fixes_has_each_fix_once() -> None:
    rows = [(row.profile, row.fix) for row in fix_rows()]
    fixes = [(page.stem, fix) for page in PAGES for fix in profile_named(page.stem).fixes]
    assert sorted(rows) == sorted(fixes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_fix_is_named_by_the_sentences_that_it_changes(page: Path) -> None:
    """A fix that softens a sentence is named there as that; each other one is named too."""
    named: set[tuple[str, str]] = set()
    softened: set[tuple[str, str]] = set()
    for row in rows_of(page):
        match = _SENTENCE.fullmatch(row.sentence)
        assert match, where(page, row)
        places = [f"{document} {match['place']}" for document in match["documents"].split(", ")]
        softened.update((fix, at) for fix in softeners_in(row.done_by) for at in places)
        names = [name.removeprefix(_WITHOUT) for name in _CODE.findall(row.done_by)]
        named.update((name, place) for name in names for place in places)
    rows = [row for row in fix_rows() if row.profile == page.stem]
    softens_at = {(row.fix, place): row.softens for row in rows for place in row.places}
    assert {*softens_at} - named == set()
    assert {pair for pair, softens in softens_at.items() if softens} - softened == set()
    parts = softeners_in((ROOT / "docs" / page.name).read_text("utf-8"))
    assert {fix for fix, _ in softened} == {row.fix for row in rows if row.softens} == parts
