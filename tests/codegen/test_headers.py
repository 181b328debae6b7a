"""Header versions: the rule, pair by pair as Kafka's own classes have it, and the page about it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kraftspec.cli import main
from kraftspec.codegen.diff import load_side
from kraftspec.codegen.headers import BEGIN, ApiHeaders, HeaderVersions, api_headers
from kraftspec.conformance.adapters.kafka import KafkaAdapter, RefusedError
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.fastpath.message import header_version_of
from kraftspec.specs import specs_root

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "headers.md"
DRAFTS = ("kip-595", "kip-853", "kip-996")

Row = tuple[int, int, int, int]  # Key, version, header of the request, header of the response.


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


def rows(apis: Sequence[ApiHeaders]) -> list[Row]:
    return [
        (api.key, version, *headers) for api in apis for version, headers in api.versions.items()
    ]


def kafkas(kafka: KafkaAdapter, directory: Path | None = None) -> list[Row]:
    versions = kafka.header_versions(directory)
    return sorted((row.id, row.version, row.request, row.response) for row in versions)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["spec", "headers", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.kafka
def test_every_pair_is_as_in_kafkas_classes(kafka: KafkaAdapter) -> None:
    ours = rows(api_headers(load_side(str(specs_root() / "kafka")).values()))
    assert ours == kafkas(kafka)
    assert len(ours) > len(kafka.api_keys())


@pytest.mark.kafka
@pytest.mark.parametrize("name", DRAFTS)
def test_drafts_are_as_kafkas_generator_has_them(kafka: KafkaAdapter, name: str) -> None:
    """Their private keys too: of nine APIs no release of Kafka has the key."""
    directory = specs_root() / name
    ours = rows(api_headers(load_side(str(directory)).values()))
    assert ours == kafkas(kafka, directory)


@pytest.mark.kafka
def test_a_directory_that_is_not_there_is_refused(kafka: KafkaAdapter, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such directory"):
        kafka.header_versions(tmp_path / "none")


@pytest.mark.parametrize(
    ("kind", "key", "version", "flexible", "header"),
    [
        ("request", 1, 11, False, 1),
        ("request", 1, 12, True, 2),
        ("response", 1, 11, False, 0),
        ("response", 1, 12, True, 1),
        ("request", 18, 2, False, 1),
        ("request", 18, 3, True, 2),
        ("response", 18, 3, True, 0),
        ("request", 7, 0, False, 0),
        ("request", 7, 1, False, 1),
        ("request", 7, 3, True, 2),
        ("response", 7, 0, False, 0),
        ("response", 7, 3, True, 1),
        ("metadata", 7, 0, True, None),
        ("header", None, 1, False, None),
    ],
)
def test_the_rule(kind: str, key: int | None, version: int, flexible: bool, header: int) -> None:
    assert header_version_of(kind, key, version, flexible) == header


def test_versions_with_a_gap() -> None:
    plain, flexible = HeaderVersions(1, 0), HeaderVersions(2, 1)
    api = ApiHeaders(5, "Odd", {0: plain, 1: flexible, 2: plain, 3: plain, 5: plain})
    assert api.with_header("request", 1) == "0, 2-3, 5"
    assert api.with_header("response", 1) == "1"
    assert api.with_header("request", 0) == ""


def test_json_has_every_version_of_an_api() -> None:
    by_key, by_name = run("18", "--json"), run("ApiVersions", "--json")
    assert by_key.stdout == by_name.stdout
    [api] = json.loads(by_key.stdout)["apis"]
    assert (api["key"], api["api"]) == (18, "ApiVersions")
    assert api["versions"][2:4] == [
        {"version": 2, "request": 1, "response": 0},
        {"version": 3, "request": 2, "response": 0},
    ]


def test_the_table_fits_a_terminal() -> None:
    lines = run().stdout.splitlines()
    assert lines[0].split() == ["request", "request", "response", "response"]
    assert lines[1].split() == ["key", "API"] + [
        word for number in "1201" for word in ("header", number)
    ]
    assert " 17 SaslHandshake 0-1 0-1" in {f" {' '.join(line.split())}" for line in lines}
    assert max(map(len, lines[:-1])) < 80
    assert lines[-1].startswith("Without versions, and so without headers: LeaderAndIsr (4), ")


def test_the_table_of_a_draft() -> None:
    lines = run("AddVoter", "--set", "kip-853").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["request", "response"], ["key", "API", "header", "2", "header", "1"],
        ["10057", "AddVoter", "0", "0"],
    ]  # fmt: skip


@pytest.mark.parametrize("arguments", [("Votes",), ("9999",), ("Vote", "--set", "kip-1")])
def test_what_is_not_there_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "there is no" in result.stderr


def test_the_page_is_up_to_date(tmp_path: Path) -> None:
    copy = tmp_path / "headers.md"
    shutil.copy(PAGE, copy)
    assert run("--write", str(copy)).exit_code == 0
    stale = "kraftspec spec headers --write docs/headers.md"
    assert copy.read_text("utf-8") == PAGE.read_text("utf-8"), stale


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n", "utf-8")
    result = run("--write", str(page))
    assert (result.exit_code, page.read_text("utf-8")) == (1, f"{BEGIN}\n")
    assert "nowhere to write to" in result.stderr
