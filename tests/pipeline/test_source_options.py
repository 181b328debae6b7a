"""The options of ``kafkalog``: valid values, and the errors of invalid ones."""

from __future__ import annotations

import pytest

from kraftspec.pipeline.source.options import EARLIEST, LATEST, Bound, OptionError, Options


def parse(**options: str) -> Options:
    return Options.parse({"path": "logs", **options})


def test_defaults() -> None:
    options = parse()
    assert options.paths == ("logs",)
    assert options.mode == "PERMISSIVE"
    assert options.isolation == "read_uncommitted"
    assert options.split_bytes == 64 << 20
    assert options.fail_on_data_loss
    assert (options.starting, options.ending, options.topics, options.assigned) == (None,) * 4
    assert options.include_headers is options.include_metadata is options.include_control is False


def test_several_paths() -> None:
    assert Options.parse({"paths": '["a","b"]'}).paths == ("a", "b")
    assert parse(paths='["a,b"]').paths == ("logs", "a,b")
    for wrong in ("a", '{"a":1}', "[1]", '[""]'):
        with pytest.raises(OptionError, match='option paths: JSON like \\["/var/'):
            parse(paths=wrong)
    with pytest.raises(OptionError, match="option path is missing"):
        Options.parse({"paths": "[]"})


def test_names_and_words_are_of_any_case() -> None:
    options = parse(MODE="failfast", startingoffsets="Earliest", includeHEADERS="TRUE")
    assert options.mode == "FAILFAST"
    assert options.starting == Bound("startingOffsets", offset=EARLIEST)
    assert options.include_headers


def test_offsets_by_partition() -> None:
    options = parse(
        startingOffsets='{"a":{"0":23,"1":-2},"b":{"0":-1}}', endingOffsets='{"a":{"0":-1}}'
    )
    assert options.starting == Bound(
        "startingOffsets", offsets={"a": {0: 23, 1: EARLIEST}, "b": {0: LATEST}}
    )
    assert options.ending == Bound("endingOffsets", offsets={"a": {0: LATEST}})


def test_a_timestamp_wins_over_offsets() -> None:
    options = parse(
        startingTimestamp="1700000000000",
        startingOffsetsByTimestamp='{"a":{"0":5}}',
        startingOffsets="earliest",
        endingOffsetsByTimestamp='{"a":{"0":5}}',
        endingOffsets="latest",
    )
    assert options.starting == Bound("startingTimestamp", timestamp=1_700_000_000_000)
    assert options.ending == Bound("endingOffsetsByTimestamp", timestamps={"a": {0: 5}})


def test_topics() -> None:
    assert parse(subscribe=" a, b ").topics == ("a", "b")
    assert parse(subscribePattern="a.*").topic_pattern == "a.*"
    assert parse(assign='{"a":[0,2]}').assigned == {"a": (0, 2)}


@pytest.mark.parametrize(
    ("value", "size"),
    [("1", 1), ("64m", 64 << 20), ("64MB", 64 << 20), ("10k", 10_240), ("2g", 2 << 30)],
)
def test_sizes(value: str, size: int) -> None:
    assert parse(splitBytes=value).split_bytes == size


def test_isolation_is_told_as_to_a_consumer() -> None:
    assert parse(**{"kafka.isolation.level": "read_committed"}).isolation == "read_committed"


def test_transaction_indexes_are_asked_for_with_committed_data() -> None:
    assert not parse().use_txn_indexes
    committed = {"kafka.isolation.level": "read_committed"}
    assert parse(useTxnIndexes="true", **committed).use_txn_indexes
    with pytest.raises(OptionError, match=r"useTxnIndexes goes with kafka\.isolation\.level"):
        parse(useTxnIndexes="true")


def test_options_of_a_consumer_are_passed_over() -> None:
    assert parse(**{"kafka.bootstrap.servers": "broker:9092"}).paths == ("logs",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "LOOSE"}, "option mode: one of PERMISSIVE, DROPMALFORMED, FAILFAST, not 'LOOSE'"),
        ({"includeHeaders": "yes"}, "option includeHeaders: one of true, false, not 'yes'"),
        ({"splitBytes": "0"}, "option splitBytes: a number of bytes, 64m for instance, not '0'"),
        ({"splitBytes": "many"}, "option splitBytes: a number of bytes"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger: a number of at least 1"),
        ({"minPartitions": "x"}, "option minPartitions: a number of at least 1, not 'x'"),
        ({"startingOffsets": "first"}, 'option startingOffsets: "earliest", "latest" or JSON like'),
        ({"startingOffsets": '{"a":3}'}, "option startingOffsets: "),
        ({"startingOffsets": '{"a":{"x":3}}'}, "partitions that are numbers"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "an offset, -1 for the latest"),
        ({"startingOffsets": '{"a":{"0":9223372036854775808}}'}, "an offset"),
        ({"startingOffsets": '{"a":{"0":true}}'}, "JSON like"),
        ({"startingOffsets": "[" * 100_000}, "JSON like"),
        ({"endingOffsets": "earliest"}, 'option endingOffsets: "latest" or JSON'),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "option endingOffsets: "),
        ({"startingTimestamp": "noon"}, "option startingTimestamp: milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "one of error, latest, not 'x'"),
        ({"assign": '{"a":0}'}, 'option assign: JSON like {"topic":[0,1]}'),
        ({"assign": "[]"}, "option assign: JSON like"),
        ({"subscribe": " ,"}, "option subscribe: topics with commas between them"),
        ({"subscribePattern": "("}, "option subscribePattern: a regular expression"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "options assign and subscribe exclude"),
        (
            {"maxOffsetsPerTrigger": "1", "maxBytesPerTrigger": "1"},
            "options maxOffsetsPerTrigger and maxBytesPerTrigger exclude each other",
        ),
        ({"kafka.isolation.level": "x"}, "option kafka.isolation.level: one of read_uncommitted"),
        ({"startingOffset": "earliest"}, "no option startingOffset; did you mean startingOffsets?"),
        ({"colour": "red"}, "kafkalog has no option colour"),
        ({"path": ""}, "option path is missing"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**options)
    assert message in str(raised.value)
    assert len(str(raised.value)) < 300
