"""Values and traces of TLC: read, and told in words."""

from __future__ import annotations

import pytest

from kraftspec.model.tlc import read_output
from kraftspec.model.values import Function, parse, parse_state
from kraftspec.model.words import story


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ('"led"', "led"),
        ("TRUE", True),
        ("None", "None"),
        ("<<>>", ()),
        ("<<a, <<1, 2>>>>", ("a", (1, 2))),
        ("{}", frozenset()),
        ("{<<a, 1>>, <<b, 1>>}", frozenset({("a", 1), ("b", 1)})),
        ("[at |-> 0,\n  voters |-> {1}]", {"at": 0, "voters": frozenset({1})}),
        ("(a :> [x |-> 1] @@\n b :> [x |-> 2])", {"a": {"x": 1}, "b": {"x": 2}}),
        ("(<<a, 1>> :> 3)", {("a", 1): 3}),
    ],
)
def test_a_value(text: str, value: object) -> None:
    assert parse(text) == value


def test_a_record_may_be_in_a_set() -> None:
    assert parse("{[a |-> {1}], [a |-> {1}], [a |-> {2}]}") == {
        Function({"a": frozenset({1})}),
        Function({"a": frozenset({2})}),
    }


def test_a_state() -> None:
    assert parse_state("/\\ net = {}\n/\\ led = {1,\n  2}") == {
        "net": frozenset(),
        "led": frozenset({1, 2}),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no value at token 0"),
        ("<<1", "no , at token 2"),
        ("{1 2}", "no , at token 2"),
        ("[a |-> 1", "no , at token 4"),
        ("1 2", "2 where a value has ended"),
        ("?", "no value of TLA"),
    ],
)
def test_what_is_no_value(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


# A record with the fields that a story looks at; the leader's, and that of one that follows.
NODE = """[ id |-> {id}, dir |-> 1, epoch |-> 1, leader |-> a, vote |-> None, role |-> "{role}",
  log |-> << [kind |-> "leader", epoch |-> 1, by |-> a, voters |-> {{}},
    targets |-> {{}}] >>, synced |-> 1,
  start |-> 0, snapshot |-> 0, hw |-> {hw}, votes |-> {{}}, fetched |-> TRUE, match |-> <<>>,
  read |-> 1, sets |-> <<[at |-> 0, voters |-> {{<<a, 0>>, <<b, 0>>}}]>> ]"""
FETCH = (
    '[kind |-> "fetch", from |-> b, to |-> a, epoch |-> 1, at |-> 1, lastEpoch |-> 1, hw |-> 0, '
    "key |-> <<b, 0>>]"
)


def state(net: str, hw: int) -> str:
    leader = NODE.format(id="a", role="leader", hw=hw)
    follower = NODE.format(id="b", role="follower", hw=0)
    return f"/\\ node = ( a :> {leader} @@ b :> {follower} )\n/\\ net = {net}\n"


OUTPUT = f"""TLC2 Version 2.18
Error: Invariant log_matching is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
{state("{}", 0)}
State 2: <AsksRecords line 1, col 1 to line 2, col 2 of module KRaft>
{state("{" + FETCH + "}", 0)}
State 3: <Receives line 1, col 1 to line 2, col 2 of module KRaft>
{state("{}", 1)}
1,250 states generated, 105 distinct states found, 48 states left on queue.
The depth of the complete state graph search is 3.
"""


def test_an_output_with_a_counterexample() -> None:
    result = read_output(OUTPUT, 1.0)
    assert (result.generated, result.distinct, result.depth) == (1250, 105, 3)
    assert (result.broken, result.is_complete) == ("log_matching", False)
    assert [step.action for step in result.trace] == ["Initial", "AsksRecords", "Receives"]
    standing = "epoch 1; its log has leader change (1), voters {a, b}"
    assert story(result.trace) == [
        "    at first:",
        f"         node a is leader of {standing}",
        f"         node b is follower of {standing}",
        "   1  node b fetches → sends Fetch(epoch 1, from 1 of epoch 1) to node a",
        "   2  node a receives Fetch(epoch 1, from 1 of epoch 1) from node b → high watermark 1",
    ]


def test_an_output_without_one() -> None:
    result = read_output(
        "Model checking completed. No error has been found.\n"
        "3993117 states generated, 663617 distinct states found, 0 states left on queue.\n"
        "The depth of the complete state graph search is 56.\n",
        1.0,
    )
    assert (result.broken, result.is_complete, result.trace) == ("", True, [])
    assert (result.generated, result.distinct, result.depth) == (3_993_117, 663_617, 56)
    assert story(result.trace) == []


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("State 4: Stuttering", "      → and nothing else happens"),
        ("Back to state 2: <Loses line 1, col 1 to line 2>", "      → and so again and again"),
    ],
)
def test_a_behaviour_that_goes_on_for_ever(last: str, told: str) -> None:
    output = OUTPUT.replace(
        "Error: Invariant log_matching is violated.", "Error: Temporal properties were violated."
    ).replace(
        "1,250 states", f"{last}\n\nFinished checking temporal properties in 00s\n1,250 states"
    )
    result = read_output(output, 1.0)
    assert result.broken == "Temporal properties"
    assert story(result.trace)[-1] == told
