"""``decode_message`` in Spark says what it says in Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import MapType, StringType, StructType

from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.generated import kafka
from kraftspec.pipeline.messages import arrow_type
from kraftspec.pipeline.messages import decode_message as decode_arrow
from kraftspec.pipeline.messages.spark import (
    decode_message,
    message_type,
    split_requests,
)


def field(type_: StructType, name: str) -> Any:
    return type_[name].dataType


def test_types_are_sparks_own() -> None:
    fetch = message_type("FetchRequest")
    assert field(fetch, "clusterId") == StringType()
    topic = field(fetch, "topics").elementType
    assert field(topic, "topicId") == StringType()
    unknown = field(topic, "_unknownTaggedFields")
    assert isinstance(unknown, MapType)
    assert field(message_type("UpdateMetadataRequest"), "_version").typeName() == "short"
    voters = field(message_type("VotersRecord"), "voters").elementType
    port = field(voters, "endpoints").elementType["port"].dataType
    assert port.typeName() == "integer"  # uint16


@pytest.mark.parametrize("errors", [False, True])
def test_every_type_is_the_same_in_spark_and_in_arrow(errors: bool) -> None:
    for name, entry in kafka.CATALOGUE.items():
        if entry[3] < entry[4]:
            type_ = message_type(name, errors=errors)
            assert to_arrow_type(type_, timezone="UTC") == arrow_type(name, errors=errors)


def test_golden_vectors_in_spark(spark: SparkSession) -> None:
    name = "MetadataResponse"
    (tests,) = [file.tests for set_, file in read_vectors(vectors_root(), f"kafka/{name}")
                if set_ == "kafka" and file.message == name]  # fmt: skip
    rows = [(bytes.fromhex(str(test.hex)), test.version) for test in tests if test.hex][:400]
    rows.append((b"\x00", 9))
    values, versions = pa.array([row[0] for row in rows]), pa.array([row[1] for row in rows])
    expected = decode_arrow(values, name, versions, errors=True)
    frame = spark.createDataFrame(pa.table({"value": values, "version": versions}))
    decoded = frame.select(decode_message("value", name, "version", errors=True)).toArrow()
    assert decoded.column_names == [name]
    assert decoded.column(0).to_pylist() == expected.to_pylist()
    assert expected.null_count == 0
    plain = frame.select(decode_message(col("value"), kafka.MetadataResponse, col("version")))
    bad = sum(row["_error"] is not None for row in expected.to_pylist())
    assert 0 < bad == plain.where("MetadataResponse is null").count() < len(rows)


def test_a_number_is_the_version_of_all_rows(spark: SparkSession) -> None:
    value = kafka.TopicRecord(name="orders").encode(0)
    frame = spark.createDataFrame([(bytearray(value),), (None,)], "value binary")
    decoded = frame.select(decode_message("value", "TopicRecord", 0).alias("topic"))
    assert [row.topic and row.topic.name for row in decoded.collect()] == ["orders", None]
    assert decoded.select("topic.topicId").first() == ("AAAAAAAAAAAAAAAAAAAAAA",)
    bad = frame.select(decode_message("value", "TopicRecord", 7, mode="FAILFAST"))
    with pytest.raises(PythonException, match="row 0: no TopicRecord of version 7"):
        bad.collect()


def test_requests_in_spark(spark: SparkSession) -> None:
    header = kafka.RequestHeader(request_api_key=1, request_api_version=17, client_id="me")
    frame = header.encode(2) + kafka.FetchRequest(max_wait_ms=500).encode(17)
    frames = spark.createDataFrame([(bytearray(frame),)], "frame binary")
    split = frames.select(split_requests("frame")).select("request.*")
    actual = split.where("message = 'FetchRequest'").select(
        "clientId", decode_message("body", "FetchRequest", "version").getField("maxWaitMs")
    )
    assert actual.first() == ("me", 500)
