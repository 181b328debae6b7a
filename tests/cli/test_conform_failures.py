"""How ``kraftspec conform run`` shows failures."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from kraftspec.cli.conform_failures import hex_rows, show, show_all
from kraftspec.conformance.raw.results import Failure


def shown(failure: Failure, width: int = 80, *, colour: bool = False) -> str:
    console = Console(width=width, force_terminal=colour, highlight=False, color_system="standard"
                      if colour else None)  # fmt: skip
    with console.capture() as captured:
        show(failure, console)
    return captured.get()


def failure(**more: Any) -> Failure:
    fields: dict[str, Any] = {
        "spec": "kafka", "message": "VoteRequest", "version": 2, "id": "0" * 16,
        "direction": "encode", "family": "tagged", "flags": ["KAFKA-1"], "kind": "wrong",
        "detail": "bytes differ from byte 20 on (40 wanted, 41 given): …00… wanted, …01… given",
        "reproduce": "kraftspec conform run --adapter x --filter id:0", "path": "topics[0].name",
    }  # fmt: skip
    return Failure(**{**fields, **more})


def test_a_hint_stands_after_the_sizes() -> None:
    detail = (
        "bytes differ from byte 0 on (2 wanted, 2 given): …01… wanted, …02… given; a and b look"
    )
    text = shown(failure(wanted="01", given="02", detail=detail))
    assert "  what   bytes differ from byte 0 on (2 wanted, 2 given); a and b look\n" in text


def shown_all(*failures: Failure) -> list[str]:
    console = Console(width=120, file=io.StringIO())
    show_all(failures, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_what_the_adapter_should_have_refused_is_told_apart() -> None:
    lax = [failure(kind="accepted", family=family) for family in ("missing_field", "wrong_type")]
    codecs = failure(kind="accepted", direction="decode", family="trailing")
    told = "2 of 3 failures may be of the adapter, not of the codec: it took JSON that it must "
    assert f"{told}refuse (missing_field, wrong_type)" in shown_all(*lax, codecs)
    assert not [line for line in shown_all(codecs) if "may be of the adapter" in line]


def test_many_failures_are_put_together() -> None:
    """A crash stands before what occurs more often; an error check that lacks is one group."""
    fields = [failure(path=f"topics[{at}].name", version=at % 3) for at in range(30)]
    lax = [
        failure(kind="accepted", message=name, direction="decode", family="trailing")
        for name in ("VoteRequest", "FetchRequest") * 20
    ]
    crash = failure(kind="crash", direction="decode", spec="kip-595", message="FindQuorum")
    lines = shown_all(*fields, *lax, crash)
    assert lines[0].startswith("crash: ")
    start = next(at for at, line in enumerate(lines) if line.startswith("71 failures: "))
    assert lines[start] == "71 failures: 40 accepted, 30 wrong, 1 crash"
    assert [line.split()[:-1] for line in lines[start + 2 : start + 5]] == [
        ["1", "crash", "kip-595/FindQuorum", "2", "decode", "topics[].name"],
        ["40", "accepted", "2", "messages", "decode", "trailing"],
        ["30", "wrong", "VoteRequest", "0-2", "encode", "topics[].name"],
    ]
    assert not any("more group" in line for line in lines)


def test_groups_that_are_not_shown_are_counted() -> None:
    lines = shown_all(*(failure(path=f"field{at}") for at in range(25)))
    assert "and 5 failures in 5 more groups; --json has all" in lines


def test_few_failures_are_all_shown() -> None:
    lines = shown_all(*(failure(path=f"field{at}") for at in range(20)))
    assert [line for line in lines if line.startswith("  field")] == [
        f"  field  field{at}" for at in range(20)
    ]


def test_bytes_in_rows() -> None:
    wanted, given = bytes(range(40)), bytes(range(20)) + b"A" + bytes(range(20, 40))
    text = shown(failure(wanted=wanted.hex(), given=given.hex(), offset=20))
    assert text.splitlines() == [
        "wrong: kafka/VoteRequest v2 encode 0000000000000000  tagged",
        "  about  KAFKA-1",
        "  field  topics[0].name",
        "  what   bytes differ from byte 20 on (40 wanted, 41 given)",
        "         0000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................",
        "  wanted 0010  10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  ................",
        "  given  0010  10 11 12 13 41 14 15 16 17 18 19 1a 1b 1c 1d 1e  ....A...........",
        "                           ^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^",
        "  wanted 0020  20 21 22 23 24 25 26 27                           !\"#$%&'",
        "  given  0020  1f 20 21 22 23 24 25 26 27                       . !\"#$%&'",
        "               ^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^",
        "  repeat kraftspec conform run --adapter x --filter id:0",
        "",
    ]
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b[" in shown(failure(wanted=wanted.hex(), given=given.hex()), colour=True)


def test_long_bytes_are_cut_and_said_to_be() -> None:
    wanted, given = bytes(1000), bytes(500) + b"\x01" + bytes(499)
    lines = [line.plain for line in hex_rows(wanted, given, 4096)]
    assert lines[0].startswith("         11e0  00")
    assert lines[1].startswith("  wanted 11f0  00 00 00 00 00")
    assert lines[2].startswith("  given  11f0  00 00 00 00 01")
    assert lines[3] == "                           ^^"
    assert lines[-1] == "               … and 456 bytes more"
    assert len(lines) == 7


@pytest.mark.parametrize(
    ("wanted", "given", "marks"),
    [("", "00", "^^"), ("00", "", "^^"), ("0001", "00", "   ^^"), ("ff", "fe", "^^")],
)
def test_bytes_that_one_of_them_lacks(wanted: str, given: str, marks: str) -> None:
    lines = [line.plain for line in hex_rows(bytes.fromhex(wanted), bytes.fromhex(given))]
    assert lines[2] == f"{'':15}{marks}"
    assert lines[0].startswith("  wanted 0000") or not wanted
    assert len(lines) == 3


def test_values_beside_each_other() -> None:
    text = shown(failure(direction="decode", detail="x", wanted='"a"', given='"b"', flags=[]))
    assert text.splitlines()[1:5] == [
        "  field  topics[0].name", "  what   x", '  wanted "a"', '  given  "b"',
    ]  # fmt: skip
    text = shown(failure(direction="decode", detail="x: missing", wanted="[]"))
    assert "  given  (nothing)" in text


def test_where_there_is_nothing_to_hold_up_none_is_drawn() -> None:
    text = shown(failure(direction="decode", detail="2 bytes were left unread"))
    assert "2 bytes were left unread" in text
    assert "(nothing)" not in text
