"""The programs in Java, Go and Rust: they handle the same bytes, and say so when they do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import test_javascript
from benchmarks.peers import inputs, programs
from crc32c import crc32c

from kraftspec.generated.kafka import MetadataResponse, VoteRequest

ONCE = programs.Times(1, 1, 1, 1)
COMPILED = [language for language in programs.LANGUAGES if language.folder != "node"]
IN_NODE = [language for language in programs.LANGUAGES if language.folder == "node"]
RUST = next(language for language in programs.LANGUAGES if language.name == "Rust")
BATCHES = [f"batch {verb} {case}" for verb in ("encode", "decode") for case in ("A/1", "B/100")]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            language, marks=pytest.mark.kafka if language.name == "Java" else pytest.mark.peers
        )
        for language in COMPILED
    ],
    ids=[language.name for language in COMPILED],
)
def program(request: pytest.FixtureRequest) -> Iterator[programs.Program]:
    """A running program; a toolchain that is missing skips, a program that does not build fails."""
    lacks = programs.missing(request.param)
    if lacks:
        pytest.skip(lacks)
    with programs.Program(request.param) as started:
        yield started


class Wire:
    """Stands for the module of the codec benchmarks."""

    @staticmethod
    def wire(name: str) -> bytes:
        message = MetadataResponse(cluster_id="c") if "metadata" in name else VoteRequest()
        return message.encode(12 if "metadata" in name else 1)


@pytest.mark.parametrize(
    ("group", "record_count"),
    [
        *((group, int(group.rpartition("/")[2])) for group in BATCHES),
        ("batch encode C/1", 1),
        ("crc 64 B", 0),
        ("crc 1 MiB", 0),
        ("encode metadata-v12-100x10", 0),
        ("decode vote-v1", 0),
    ],
)
def test_a_program_makes_what_ours_makes(
    program: programs.Program, group: str, record_count: int
) -> None:
    request = inputs.request(group, Wire)
    assert request is not None
    reported = program.measure(request, ONCE)
    assert reported["records"] == record_count
    assert reported["bytes"] == len(request.data)
    assert len(reported["rounds"]) >= 5
    assert all(time_ns > 0 for time_ns in reported["rounds"])


@pytest.mark.parametrize("operation", ["crc32c", "encode-batch", "decode-batch"])
def test_another_result_is_an_error(program: programs.Program, operation: str) -> None:
    request = programs.Request(operation, inputs.batch("B", 2), 0xDEAD)
    with pytest.raises(programs.PeerError, match=r"CRC-32C 0x[0-9a-f]+, expected 0xdead"):
        program.measure(request, ONCE)


def test_bytes_that_a_program_would_not_write_are_an_error(program: programs.Program) -> None:
    """A length in one byte more than it needs: each reads it, and none writes it back."""
    data = bytearray(inputs.batch("A", 1))
    assert data[61:67] == b"\xd6\x01\0\0\0\x01"  # 107 bytes follow; the key is null.
    data[61:67] = b"\xd8\x01\0\0\0\x81\0"
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    with pytest.raises(programs.PeerError, match="other bytes from offset"):
        program.measure(programs.Request("encode-batch", bytes(data), 0), ONCE)


def test_an_unknown_request_is_an_error_and_not_the_end(program: programs.Program) -> None:
    request = programs.Request("encode-message", b"", 0, "NoSuchMessage", 0)
    with pytest.raises(programs.PeerError, match="no message NoSuchMessage"):
        program.measure(request, ONCE)
    good = inputs.request("crc 1 KiB", None)
    assert good is not None
    assert program.measure(good, ONCE)["bytes"] == 1024


@pytest.mark.peers
@pytest.mark.parametrize("language", IN_NODE, ids=lambda language: language.name)
def test_a_library_in_node_handles_the_same_messages(language: programs.Language) -> None:
    lacks = programs.missing(language)
    if lacks:
        pytest.skip(lacks)
    groups = [f"javascript {verb} {case}" for case, (verb, _, _) in test_javascript.CASES.items()]
    groups = [group for group in groups if language.has(group)]
    assert len(groups) == (8 if language.name == "Kraftspec" else 4)
    with programs.Program(language) as started:
        for group in groups:
            request = inputs.request(group, test_javascript)
            assert request is not None
            assert started.measure(request, ONCE)["records"] == 0
            with pytest.raises(programs.PeerError, match="byte"):
                started.measure(replace(request, data=request.data[:-1]), ONCE)


def test_a_group_is_for_the_libraries_that_have_it() -> None:
    has = {language.name: language.has for language in programs.LANGUAGES}
    assert [name for name in has if has[name]("decode vote-v1")] == ["Java", "Go", "Rust"]
    assert [name for name in has if has[name]("javascript decode metadata-v12-100x10")] == [
        "Kraftspec", "Platformatic",
    ]  # fmt: skip


def test_groups_that_only_python_has() -> None:
    assert inputs.request("import", None) is None
    assert inputs.request("append 100", None) is None


def test_a_missing_tool_is_named() -> None:
    language = replace(RUST, tools=("cargo-of-nowhere",))
    with pytest.raises(programs.MissingError, match=r"not found: cargo-of-nowhere; install Rust"):
        programs.build(language)


def test_a_build_that_fails_tells_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "CACHE", tmp_path)
    language = replace(RUST, tools=("ls",), build="ls {source}/no-such-file")
    with pytest.raises(programs.MissingError, match=r"did not build: .*no-such-file"):
        programs.build(language)


def test_a_program_that_ends_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "CACHE", tmp_path)
    language = replace(RUST, tools=("true",), build="true", command="true", version="")
    with pytest.raises(programs.PeerError, match="ended without an answer"):
        programs.Program(language)
