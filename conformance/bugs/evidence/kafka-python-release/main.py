"""A release of kafka-python behind harness protocol 1, for the messages of its bugs.

A record batch is put together from the library's own varint types (2.x). What is decoded is
encoded again by the library before it is answered, as a proxy would.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from typing import Any

import kafka
from kafka.record._crc32c import crc

Value = dict[str, Any]


def request_bytes(value: Value) -> bytes:
    """Encode ApiVersionsRequest v3 with 2.x's class, which takes tagged fields as given."""
    from kafka.protocol.api_versions import ApiVersionsRequest_v3  # noqa: PLC0415 - not in 3.x

    tags = {tag["tag"]: bytes.fromhex(tag["hex"]) for tag in value.get("_unknownTaggedFields", ())}
    request = ApiVersionsRequest_v3(
        value["clientSoftwareName"], value["clientSoftwareVersion"], tags
    )
    return bytes(request.encode())


def batch_bytes(value: Value) -> bytes:
    """Encode a RecordBatch: the varints and varlongs of its records are 2.x's types."""
    records = b"".join(map(record_bytes, value["records"]))
    rest = struct.pack(
        ">hiqqqhii", value["attributes"], value["lastOffsetDelta"], value["baseTimestamp"],
        value["maxTimestamp"], value["producerId"], value["producerEpoch"], value["baseSequence"],
        len(value["records"]),
    ) + records  # fmt: skip
    tail = struct.pack(">ibI", value["partitionLeaderEpoch"], 2, crc(rest)) + rest
    return struct.pack(">qi", value["baseOffset"], len(tail)) + tail


def record_bytes(record: Value) -> bytes:
    """Encode one record with its length before it."""
    from kafka.protocol.types import VarInt32, VarInt64  # noqa: PLC0415 - not in 3.x

    def sized(text: str | None) -> bytes:
        if text is None:
            return bytes(VarInt32.encode(-1))
        raw = base64.b64decode(text)
        return bytes(VarInt32.encode(len(raw))) + raw

    body = struct.pack(">b", record["attributes"]) + VarInt64.encode(record["timestampDelta"])
    body += VarInt32.encode(record["offsetDelta"]) + sized(record["key"]) + sized(record["value"])
    body += VarInt32.encode(len(record["headers"]))
    return bytes(VarInt32.encode(len(body)) + body)


def delete_topics_again(version: int, data: bytes) -> Value:
    """Decode DeleteTopicsRequest with 3.x, encode it again, and tell what it held."""
    from kafka.protocol.admin import DeleteTopicsRequest  # noqa: PLC0415 - another in 2.x

    read = DeleteTopicsRequest.decode(data, version=version)
    again = read.encode(version=version)
    if again != data:
        raise ValueError(f"encoded again it is {again.hex()}")
    return {"topicNames": list(read.topic_names), "timeoutMs": read.timeout_ms}


def answer(request: Value) -> Value:
    """Answer an encode or a decode."""
    match request["cmd"], request["message"]:
        case "encode", "ApiVersionsRequest":
            return {"hex": request_bytes(request["value"]).hex()}
        case "encode", "RecordBatch":
            return {"hex": batch_bytes(request["value"]).hex()}
        case "decode", "DeleteTopicsRequest":
            data = bytes.fromhex(request["hex"])
            return {"value": delete_topics_again(request["version"], data)}
    return {"skipped": {"reason": "not a message of one of its bugs"}}


def main() -> None:
    """Answer standard input until it says stop."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        if request["cmd"] == "hello":
            reply: Value = {
                "protocol": 1, "name": "kafka-python", "language": "python",
                "version": kafka.__version__, "spec": "kafka", "messages": {},
            }  # fmt: skip
        else:
            try:
                reply = {"id": request["id"], **answer(request)}
            except Exception as error:
                detail = f"{type(error).__name__}: {error}"
                reply = {"id": request["id"], "error": {"class": "refused", "detail": detail}}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
