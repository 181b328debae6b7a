"""Each exchange passes our client as it is, and fails it with the fault that the exchange names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kraftspec.conformance.clients.certificates import make
from kraftspec.conformance.clients.clients import command_of
from kraftspec.conformance.clients.driver import Driver
from kraftspec.conformance.clients.exchange_files import (
    Exchange,
    own_files,
    parse_exchanges,
    read_exchanges,
)
from kraftspec.conformance.clients.faults import FAULTS
from kraftspec.conformance.clients.run import Player, Timing
from kraftspec.yaml_files import YamlFileError

EXCHANGES = read_exchanges(own_files())
START_S = 60.0
# A client is given all the time that a busy machine takes, unless its time-out is what is expected.
PATIENT, HASTY = Timing(30, 60), Timing(0.3, 60, connect_s=30)
HANGING = Timing(3, 1)
LATE = Timing(3, 60, connect_s=30)  # An answer comes after the first, and well within the second.


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def good(certificates: Path) -> Iterator[Player]:
    with (
        Driver(command_of("kraftspec")) as driver,
        Player(driver, PATIENT, certificates=certificates) as player,
    ):
        yield player


@pytest.fixture(scope="module")
def broken(certificates: Path) -> Iterator[Player]:
    with (
        Driver(command_of("kraftspec")) as driver,
        Player(driver, PATIENT, certificates=certificates) as player,
    ):
        yield player


def names() -> list[str]:
    return [one.name for one in EXCHANGES]


def is_late(exchange: Exchange) -> bool:
    return any(answer.late for answer in exchange.answers)


def timing(exchange: Exchange) -> Timing:
    if is_late(exchange):
        return LATE
    return HASTY if exchange.client_waits else PATIENT


@pytest.mark.parametrize("exchange", EXCHANGES, ids=names())
def test_our_client_passes(good: Player, exchange: Exchange) -> None:
    good.timing = timing(exchange)
    result = good.play(exchange)
    assert result.passed, result


def with_faults() -> list[Exchange]:
    """Return the first exchange of each fault; all of them for `make campaigns`."""
    if os.environ.get("KRAFTSPEC_EXCHANGES") == "all":
        return list(EXCHANGES)
    return list({one.broken: one for one in reversed(EXCHANGES)}.values())


# Many faults end the driver, and its start takes a while.
@pytest.mark.soak
@pytest.mark.parametrize("exchange", with_faults(), ids=lambda exchange: exchange.name)
def test_a_client_with_the_fault_fails(broken: Player, exchange: Exchange) -> None:
    assert exchange.broken in FAULTS
    if not broken.driver.is_running:
        broken.driver.start(START_S)
    switch = {"verb": "break", "fault": exchange.broken}
    assert broken.driver.send(msgspec.json.encode(switch), START_S).ok
    hangs = exchange.broken in ("no-deadline", "no-end")
    gives_up = exchange.broken == "silent-error" or all(
        getattr(step, step.verb).ends == "ok" for step in exchange.steps
    )
    hasty = HASTY if gives_up else PATIENT
    broken.timing = HANGING if hangs else LATE if is_late(exchange) else hasty
    result = broken.play(exchange)
    assert not result.passed, result
    if hangs:
        assert result.verdict == "hangs"


def test_each_fault_fails_an_exchange() -> None:
    assert {one.broken for one in EXCHANGES} == set(FAULTS)


def test_the_driver_of_the_page_is_judged(certificates: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/clients.md").read_text("utf-8")
    path = tmp_path / "driver.py"
    path.write_text(page.split("```python\n")[1].split("```")[0], "utf-8")
    with (
        Driver([sys.executable, str(path)]) as driver,
        Player(driver, PATIENT, certificates=certificates) as player,
    ):
        by_name = {one.name: one for one in EXCHANGES}
        skipped = player.play(by_name["batch-gzip"])
        given_up = player.play(by_name["not-leader-twice"])
    assert (skipped.verdict, skipped.detail) == (
        "not supported",
        "it has no consume",
    )
    assert (given_up.verdict, given_up.passed) == ("gives up", False)
    assert "it cannot produce" in given_up.detail


def test_mistakes_have_their_places() -> None:
    text = """exchanges:
  - name: wrong
    about: It has three mistakes.
    cites: "none at all"
    answers: [{api: Produse}]
    given: {versions: {Fetch: many}}
    steps: [{}]
    broken: aborts
"""
    with pytest.raises(YamlFileError) as error:
        parse_exchanges(text, "wrong.yaml")
    assert str(error.value).splitlines() == [
        "wrong.yaml:5:21: there is no API 'Produse'; did you mean Produce?",
        "wrong.yaml:6:31: 'many' is none of 4, 3-7 and none",
        "wrong.yaml:7:13: one of connect, produce, consume and admin",
        "wrong.yaml:8:13: there is no fault 'aborts'; did you mean abort?",
    ]
