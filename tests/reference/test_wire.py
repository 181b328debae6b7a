"""Frames, headers and versions of a connection, without a socket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath.errors import CodecError
from kraftspec.generated import kafka, kip_595
from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.wire.apis import Api, common_version, message_of
from kraftspec.reference.wire.blocking import run_blocking
from kraftspec.reference.wire.client import Requests, VersionsError, negotiate
from kraftspec.reference.wire.frames import (
    FrameReader,
    WireError,
    peek_request,
    read_request_head,
    read_response,
    request_header,
    response_header,
    sized,
)

REFUSED = 35


@given(st.lists(st.binary(min_size=4, max_size=40), max_size=5), st.data())
def test_frames_come_out_whole_wherever_the_stream_is_cut(
    frames: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(sized, frames))
    reader = FrameReader()
    taken: list[bytes] = []
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        reader.feed(stream[:count])
        stream = stream[count:]
        while (frame := reader.take()) is not None:
            taken.append(frame)
    assert taken == frames
    assert len(reader) == 0


@pytest.mark.parametrize("size", [-1, 3, 101])
def test_a_size_that_is_none_is_refused_before_it_is_waited_for(size: int) -> None:
    reader = FrameReader(4, 100)
    reader.feed(size.to_bytes(4, "big", signed=True))
    with pytest.raises(WireError, match=f"a frame of {size} bytes; 4 to 100 are taken"):
        reader.take()


@pytest.mark.parametrize(("version", "body_at"), [(0, 10), (2, 10), (3, 11)])
def test_a_header_ends_where_its_message_says(version: int, body_at: int) -> None:
    """ApiVersions is flexible from version 3 on, and its responses have the old header for ever."""
    frame = request_header(ApiVersionsRequest, version, 7, "") + b"body"
    assert peek_request(frame) == (18, version, 7)
    assert read_request_head(frame, ApiVersionsRequest) == (18, version, 7, "", body_at)
    assert read_request_head(frame).body_at == 10  # Who does not know the API sees no tags.
    assert response_header(ApiVersionsResponse, version, 7) == b"\0\0\0\7"
    assert response_header(VoteResponse, 0, 7) == b"\0\0\0\7\0"


def test_a_response_without_a_whole_header_is_none() -> None:
    with pytest.raises(CodecError, match="correlation id"):
        read_response(b"\0\0\0", VoteResponse, 0)


def test_answers_come_in_the_order_of_their_requests() -> None:
    requests = Requests("me", bytes_max=100)
    for note in ("first", "second"):
        sent = requests.ask(VoteRequest, 0, VoteRequest().encode(0), note)
        assert read_request_head(sent[4:], VoteRequest).client_id == "me"
    requests.feed(sized(b"\0\0\0\1one")[:6])
    assert requests.take() is None
    requests.feed(sized(b"\0\0\0\1one")[6:] + sized(b"\0\0\0\3three"))
    answered = requests.take()
    assert answered is not None
    assert (answered[0].note, answered[1]) == ("first", b"\0\0\0\1one")
    with pytest.raises(WireError, match="the request 3, and 2 was asked"):
        requests.take()
    with pytest.raises(WireError, match="hung up after 0 of 4 bytes"):
        requests.feed(b"")


def test_nothing_is_due_before_something_is_asked() -> None:
    requests = Requests("me")
    requests.feed(sized(b"\0\0\0\1"))
    with pytest.raises(WireError, match="the request 1, and none is due"):
        requests.take()


def versions(highest: int, error: int = 0) -> ApiVersionsResponse:
    entry = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=highest)
    return ApiVersionsResponse(error_code=error, api_keys=[entry])


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([versions(5)], [5]),
        ([versions(4, REFUSED), versions(4)], [5, 4]),
        ([versions(2, REFUSED), versions(2)], [5, 2]),
        ([ApiVersionsResponse(error_code=REFUSED), versions(0)], [5, 0]),
        ([versions(5, REFUSED), versions(5, REFUSED), versions(5)], [5, 4, 3]),
    ],
)
def test_versions_are_asked_for_lower_until_they_are_understood(
    answers: list[ApiVersionsResponse], expected: list[int]
) -> None:
    """As the other side says, and at least by one, also where what it says is no help (KIP-511)."""
    seen: list[int] = []

    async def exchange(request: Any, version: int, response: Any) -> Any:
        seen.append(version)
        assert bool(request.client_software_name) == (version >= 3)
        given = answers[len(seen) - 1]
        written = 0 if given.error_code else version
        frame = response_header(response, written, 1) + given.encode(written)
        return read_response(frame, response, version)

    assert run_blocking(negotiate(exchange)) == {18: range(answers[-1].api_keys[0].max_version + 1)}
    assert seen == expected


@pytest.mark.parametrize(("code", "count"), [(REFUSED, 6), (42, 1)])
def test_who_refuses_every_version_is_not_asked_for_ever(code: int, count: int) -> None:
    seen: list[int] = []

    async def exchange(request: Any, version: int, response: Any) -> Any:
        seen.append(version)
        return versions(5, code)

    with pytest.raises(VersionsError, match="which offers that version") as refused:
        run_blocking(negotiate(exchange))
    assert (refused.value.code, len(seen)) == (code, count)


def test_apis() -> None:
    assert Api.of(VoteRequest, VoteResponse)[:4] == (52, "Vote", 0, 2)
    assert Api.of(SaslHandshakeRequest, SaslHandshakeResponse, 1)[:4] == (17, "SaslHandshake", 1, 1)
    assert message_of(kafka, "request", 52) is VoteRequest
    assert message_of(kafka, "response", 52) is VoteResponse
    assert message_of(kip_595, "request", 10_051) is kip_595.BeginQuorumEpochRequest
    assert message_of(kafka, "request", 10_051) is None


def test_the_newest_version_that_both_sides_have() -> None:
    assert common_version(range(4, 19), range(13)) == 12
    assert common_version(range(2), range(1, 9)) == 1
    assert common_version(range(2), range(2, 9)) is None
    assert common_version(range(2), None) is None
