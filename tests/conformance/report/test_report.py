"""What is made of results: JUnit by an XSD, the badge, the comparison, the page's bytes."""

from __future__ import annotations

import json
import re
import shlex
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import xmlschema
from click.testing import CliRunner, Result
from msgspec import to_builtins
from msgspec.structs import replace

from kraftspec.cli import main
from kraftspec.conformance.adapters.registry import AdapterSpec, find
from kraftspec.conformance.raw.results import (
    HarnessFailure,
    Results,
    Selection,
    UnexpectedPass,
)
from kraftspec.conformance.raw.vectors import Note
from kraftspec.conformance.report import campaign as campaign_room
from kraftspec.conformance.report import read_results, share_text
from kraftspec.conformance.report.badge import badge
from kraftspec.conformance.report.compare import compare
from kraftspec.conformance.report.junit import FAILURES_SHOWN_MAX, junit
from kraftspec.conformance.report.matrix import LeftOut, flags_of, page

from .result_samples import NASTY, campaign, counts, failure, results

SVG = "{http://www.w3.org/2000/svg}"
PAGE_BYTES_MAX = 3_000_000
# Decodes nothing, and encodes a vote of version 0 wrongly: the rest is our own codec's.
LIAR = """
import json, sys
from kraftspec.conformance.adapters.ours import reply
for line in sys.stdin.buffer:
    answer = reply(line, "liar")
    if answer is None:
        break
    request = json.loads(line)
    if request["cmd"] == "encode" and request["version"] == 0 and "hex" in answer:
        answer["hex"] = "ff" + answer["hex"][2:]
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def xsd() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))


def cli(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Page(HTMLParser):
    """The scripts of a page, its data, and whatever in it would be fetched."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[tuple[str | None, str]] = []
        self.fetched: list[str] = []
        self.policy = ""
        self._in: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "script":
            self.scripts.append((attributes.get("type"), ""))
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes.get("content") or ""
        self._in = tag
        links = (attributes.get("src"), attributes.get("href"))
        self.fetched += [link for link in links if link and link != "data:,"]

    def handle_endtag(self, tag: str) -> None:
        self._in = None

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)

    @property
    def data(self) -> Any:
        [data] = [text for kind, text in self.scripts if kind == "application/json"]
        return json.loads(data)


# -- The page -----------------------------------------------------------------------------------


def test_the_page_stands_alone_and_runs_its_own_script_only() -> None:
    parsed = Page(page(campaign(2, 0.01), flags={}))
    assert parsed.fetched == []
    assert [kind for kind, _ in parsed.scripts] == ["application/json", None]
    assert "default-src 'none'" in parsed.policy
    assert "unsafe" not in parsed.policy
    assert len(re.findall(r"'sha256-[\w+/]{43}='", parsed.policy)) == 2


def test_texts_that_would_break_a_page_are_data() -> None:
    run = results(
        {"VoteRequest": {"0": counts(failed=1, skipped=1)}},
        [failure(detail=NASTY, path=NASTY, wanted=NASTY, reproduce=NASTY, flags=[NASTY])],
        name=NASTY,
        version=NASTY,
    )
    note = Note(bug_type=NASTY, description=NASTY, links=[NASTY])
    html = page([run], left_out=[LeftOut(NASTY, NASTY, NASTY)], flags={NASTY: note})
    assert NASTY not in html
    assert "alert(1)</script>" not in html
    parsed = Page(html)
    assert len(parsed.scripts) == 2
    [judged] = parsed.data["runs"]
    assert judged["label"] == NASTY
    assert judged["failures"]["0"]["shown"][0]["detail"] == NASTY
    assert parsed.data["flags"] == {NASTY: {"type": NASTY, "text": NASTY, "links": [NASTY]}}


def test_a_page_of_many_failures_is_small_and_says_what_it_leaves_out() -> None:
    runs = campaign(8, 0.4)
    assert sum(len(run.failures) for run in runs) > 50_000
    html = page(runs, flags={})
    assert len(html.encode()) < PAGE_BYTES_MAX
    cells = [cell for run in Page(html).data["runs"] for cell in run["failures"].values()]
    assert sum(cell["count"] for cell in cells) == sum(len(run.failures) for run in runs)
    most = max(len(cell["shown"]) for cell in cells)
    assert f"A cell shows at most {most} failure" in html


def test_few_of_many_failures_are_of_every_version_and_the_news_first() -> None:
    known = [failure(version=0, id=f"{at:016x}", known="old") for at in range(90)]
    news = [failure(version=version, id=f"{version:016x}") for version in (0, 1, 2)]
    cells = {"0": counts(failed=1, known=90), "1": counts(failed=1), "2": counts(failed=1)}
    run = results({"VoteRequest": cells}, [*known, *news])
    [cell] = Page(page([run], flags={})).data["runs"][0]["failures"].values()
    assert cell["count"] == 93
    assert {one["version"] for one in cell["shown"]} == {0, 1, 2}
    assert len([one for one in cell["shown"] if "known" not in one]) == 3


def test_long_bytes_are_cut_around_the_first_that_differs() -> None:
    expected = bytes(range(256)) * 2
    actual = expected[:300] + b"\xff" + expected[301:]
    run = results(
        {"VoteRequest": {"0": counts(failed=1)}},
        [failure(direction="encode", wanted=expected.hex(), given=actual.hex(), shown_from=1000)],
    )
    [cell] = Page(page([run], flags={})).data["runs"][0]["failures"].values()
    shown = cell["shown"][0]["hex"]
    assert shown["differs"] == 1300
    first = shown["differs"] - shown["at"]
    assert shown["wanted"][2 * first : 2 * first + 2] == "2c"  # 300 is 0x12c.
    assert shown["given"][2 * first : 2 * first + 2] == "ff"
    assert len(shown["wanted"]) < 250


def test_columns_of_one_name_are_told_apart() -> None:
    cells = {"VoteRequest": {"0": counts(passed=1)}}
    runs = [
        results(cells, name="franz-go", version="1.14.0"),
        results(cells, name="franz-go", version="1.15.0"),
        results(cells, name="franz-go", version="1.15.0"),
        results(cells, name="kio"),
    ]
    labels = [run["label"] for run in Page(page(runs, flags={})).data["runs"]]
    assert labels == ["franz-go@1.14.0", "franz-go@1.15.0#1", "franz-go@1.15.0#2", "kio"]


def test_the_page_says_that_a_run_was_of_a_part_or_broke_off() -> None:
    run = results(
        {"VoteRequest": {"0": counts(passed=1)}},
        selection=Selection(filters=["Vote"], shard="1/3"),
        harness_failure=HarnessFailure(kind="died", detail="ended with exit code 3"),
    )
    html = page([run], left_out=[LeftOut("kio", "python", "uv was not found")], flags={})
    for text in ("only the tests of Vote", "only shard 1/3", "broke off", "uv was not found"):
        assert text in html


def test_a_report_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        page([], flags={})


def test_flags_are_explained_by_the_vectors(tmp_path: Path) -> None:
    note = {"bugType": "bug", "description": "why", "links": ["https://issues.apache.org/x"]}
    for name in ("VoteRequest", "FetchRequest"):
        file = tmp_path / "kafka" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"notes": {"a-bug": note, "other": note}, "tests": []}))
    run = results({"VoteRequest": {"0": counts(failed=1)}}, [failure(flags=["a-bug"])])
    flags = flags_of([run], tmp_path)
    assert flags == {
        "a-bug": Note(bug_type="bug", description="why", links=["https://issues.apache.org/x"])
    }


# -- JUnit ----------------------------------------------------------------------------------------


def test_junit_is_what_build_servers_read(xsd: xmlschema.XMLSchema) -> None:
    for run in campaign(8, 0.02):
        xsd.validate(junit(run))


def test_junit_of_texts_that_xml_cannot_write(xsd: xmlschema.XMLSchema) -> None:
    run = results(
        {"VoteRequest": {"0": counts(failed=1)}},
        [failure(detail=f"{NASTY}\ud800", reproduce=NASTY)],
        name=NASTY,
        harness_failure=HarnessFailure(kind=NASTY, detail=NASTY),
    )
    text = junit(run)
    xsd.validate(text)
    message = Xml.fromstring(text).findtext(".//failure")
    assert message is not None
    assert "</script><script>alert(1)</script>" in message
    assert "\\u0000" in message
    assert "\\ud800" in message


def test_a_junit_case_is_a_version_and_its_outcome(xsd: xmlschema.XMLSchema) -> None:
    unexpected = UnexpectedPass(
        spec="kafka", message="VoteRequest", version=4, id="00", direction="encode",
        family="defaults", known="was wrong",
    )  # fmt: skip
    cells = {
        "0": counts(passed=3),
        "1": counts(passed=3, failed=FAILURES_SHOWN_MAX + 5),
        "2": counts(skipped=3),
        "3": counts(passed=3, known=1),
        "4": counts(passed=3, unexpected=1),
    }
    failures = [failure(version=1) for _ in range(FAILURES_SHOWN_MAX + 5)]
    failures.append(failure(version=3, known="somebody's bug"))
    run = results({"VoteRequest": cells}, failures, unexpected=[unexpected])
    root = Xml.fromstring(junit(run))
    xsd.validate(junit(run))
    outcomes = {case.get("name"): case[0].tag for case in root.iter("testcase")}
    assert outcomes == {
        "version 0": "system-out",
        "version 1": "failure",
        "version 2": "skipped",
        "version 3": "skipped",
        "version 4": "failure",
    }
    [suite] = root
    figures = [suite.get(what) for what in ("tests", "failures", "errors", "skipped")]
    assert figures == ["5", "2", "0", "2"]
    first, second = (failure_element.text for failure_element in root.iter("failure"))
    assert first is not None
    assert "and 5 more" in first
    assert second is not None
    assert "was wrong" in second


# -- Badge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        (counts(passed=1000), "100 %"),
        (counts(passed=9999, failed=1), "99.9 %, 1 failing"),
        (counts(passed=999, known=1), "99.9 %, rest known"),
        (counts(passed=1, failed=2), "33.3 %, 2 failing"),
        (counts(passed=9, unexpected=1), "90.0 %, 1 failing"),
        (counts(skipped=9), "nothing answered"),
    ],
)
def test_a_badge_says_one_figure(cell: Any, label: str) -> None:
    svg = Xml.fromstring(badge(results({"VoteRequest": {"0": cell}}, name="a & <b>")))
    assert svg.findtext(f"{SVG}title") == f"a & <b> 1.0, kafka conformance: {label}"
    assert [text.text for text in svg.iter(f"{SVG}text")] == ["kafka conformance", label]
    assert svg.get("role") == "img"


def test_a_run_that_broke_off_has_no_good_badge() -> None:
    broke = HarnessFailure(kind="died", detail="ended")
    run = results({"VoteRequest": {"0": counts(passed=9)}}, harness_failure=broke)
    assert "run broke off" in badge(run)


def test_a_hundred_percent_is_all() -> None:
    assert share_text(99_999, 100_000) == "99.9 %"
    assert share_text(7, 7) == "100 %"


# -- Comparison -----------------------------------------------------------------------------------


def cases(changes: Any) -> list[str]:
    return [one.case[3] for one in changes]


def test_what_changed_between_two_runs() -> None:
    old = results(
        {
            "VoteRequest": {"0": counts(passed=8, failed=2), "1": counts(passed=10)},
            "FetchRequest": {"4": counts(passed=1)},
            "kip-853/VoteRequest": {"0": counts(passed=9, failed=1)},
        },
        [failure(id="fixed"), failure(id="same"), failure(id="skipped", spec="kip-853")],
    )
    new = results(
        {
            "VoteRequest": {
                "0": counts(passed=8, failed=1, known=1),
                "1": counts(passed=9, failed=1),
            },
            "kip-853/VoteRequest": {"0": counts(passed=4, skipped=6)},
            "ListOffsetsRequest": {"1": counts(passed=1)},
        },
        [failure(id="same"), failure(id="new", version=1), failure(id="k", known="a bug")],
    )
    comparison = compare(old, new)
    assert cases(comparison.newly_failing) == ["new"]
    assert cases(comparison.newly_passing) == ["fixed"]
    assert cases(comparison.no_longer_answered) == ["skipped"]
    assert [str(one) for one in comparison.answered_less] == [
        "kip-853/VoteRequest v0: 4 answered, 10 before"
    ]
    assert comparison.added == (("kafka", "ListOffsetsRequest", 1),)
    assert comparison.gone == (("kafka", "FetchRequest", 4),)
    assert comparison.regressed
    assert comparison.to_json()["newlyFailing"][0]["id"] == "new"


def test_a_failure_that_became_known_is_not_a_pass() -> None:
    old = results({"VoteRequest": {"0": counts(failed=1)}}, [failure()])
    new = results({"VoteRequest": {"0": counts(known=1)}}, [failure(known="a bug")])
    comparison = compare(old, new)
    assert comparison.newly_passing == ()
    assert cases(comparison.now_known) == [failure().id]
    assert not comparison.regressed
    assert compare(new, old).regressed  # It is known no longer, and fails.


# -- The commands, by a codec that is really wrong ------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The results of our codec, and of one that lies about version 0."""
    directory = tmp_path_factory.mktemp("runs")
    script = directory / "liar.py"
    script.write_text(LIAR)
    liar = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
    ours = cli("conform", "run", "--adapter", "kraftspec", "--filter", "VoteRequest", "--json")
    theirs = cli("conform", "run", "--exec", liar, "--filter", "VoteRequest", "--json")
    assert (ours.exit_code, theirs.exit_code) == (0, 1)
    files = directory / "ours.json", directory / "liar.json"
    for file, result in zip(files, (ours, theirs), strict=True):
        file.write_text(result.stdout)
    return files


def test_compare_tells_of_a_regression(runs: tuple[Path, Path]) -> None:
    ours, liar = runs
    worse = cli("conform", "compare", ours, liar)
    assert worse.exit_code == 1
    assert "newly failing" in worse.stdout
    assert worse.stdout.endswith("regressed\n")
    better = cli("conform", "compare", liar, ours)
    assert (better.exit_code, better.stdout.splitlines()[-1]) == (0, "no regression")
    assert "newly passing" in better.stdout
    comparison = json.loads(cli("conform", "compare", ours, liar, "--json").stdout)
    assert comparison["regressed"] is True
    assert {one["version"] for one in comparison["newlyFailing"]} == {0}
    assert {one["direction"] for one in comparison["newlyFailing"]} == {"encode"}


def test_a_message_that_there_is_not_has_no_version_to_count() -> None:
    """Its vectors pass if they are refused; a run does not count them as a pair, either."""
    kafka = {"VoteRequest": {"1": counts(passed=1)}, "NoSuchMessage": {"0": counts(passed=1)}}
    assert "2 messages, 1 pair of message and version" in page([results(kafka)], flags={})


def test_report_and_badge_of_real_runs(runs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report.html"
    result = cli("conform", "report", *runs, "--out", out)
    assert result.exit_code == 0, result.output
    ours, liar = Page(out.read_text("utf-8")).data["runs"]
    assert ours["failures"] == {}
    shown = [one for cell in liar["failures"].values() for one in cell["shown"]]
    assert {(one["version"], one["direction"]) for one in shown} == {(0, "encode")}
    svg = tmp_path / "badge.svg"
    assert cli("conform", "badge", runs[1], "--out", svg).exit_code == 0
    assert "failing" in svg.read_text("utf-8")


def test_junit_of_a_real_run(runs: tuple[Path, Path], xsd: xmlschema.XMLSchema) -> None:
    liar = read_results(runs[1])
    text = junit(liar)
    xsd.validate(text)
    failed = {
        (case.get("classname"), case.get("name"))
        for case in Xml.fromstring(text).iter("testcase")
        if case.find("failure") is not None
    }
    assert ("liar.kafka.VoteRequest", "version 0") in failed
    assert not any(name == "version 1" for _, name in failed)


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"schemaVersion": 1}')
    result = cli("conform", "report", bad, "--out", tmp_path / "page.html")
    assert result.exit_code == 1
    assert "bad.json: not the results of a run" in result.output
    assert not (tmp_path / "page.html").exists()


@pytest.mark.soak
def test_all_adapters_are_run_and_who_is_left_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, one whose tool is missing, and one that the runner does not know."""
    lacking = AdapterSpec(
        name="lacking", language="go", implements="nothing", run=("no-such-tool",),
        needs=("no-such-tool",), install={"no-such-tool": "make no-such-tool"},
    )  # fmt: skip
    unknown = AdapterSpec(name="unknown", language="rust", implements="nothing", run=("true",))
    specs = (unknown, find("kraftspec"), lacking)
    monkeypatch.setattr(campaign_room, "adapters", lambda: specs)
    out = tmp_path / "report" / "index.html"
    out.parent.mkdir()
    (out.parent / "lacking.json").write_text("of yesterday")
    result = cli("conform", "report", "--all", "--out", out)
    assert result.exit_code == 0, result.output
    assert "running kraftspec, 1 of 3" in result.output
    files = {path.name for path in out.parent.iterdir()}
    assert files == {"index.html", "kraftspec.json", "kraftspec.svg"}
    assert read_results(out.parent / "kraftspec.json").tests > 10_000
    html = out.read_text("utf-8")
    assert [run["label"] for run in Page(html).data["runs"]] == ["kraftspec"]
    text = unescape(html)
    assert "no-such-tool was not found; install it with: make no-such-tool" in text
    assert "there is no adapter 'unknown'" in text


def test_report_wants_results_or_all() -> None:
    assert cli("conform", "report").exit_code == 2


def test_results_survive_their_json(tmp_path: Path) -> None:
    run = replace(campaign(1, 0.01)[0], restarts=3)
    file = tmp_path / "run.json"
    file.write_text(json.dumps(to_builtins(run)))
    again: Results = read_results(file)
    assert again == run
