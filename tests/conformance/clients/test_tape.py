"""What went over a client's connections, byte by byte, as a transcript."""

from __future__ import annotations

from kraftspec.conformance.clients.tape import Tape, transcript_of_client
from kraftspec.generated.kafka import HeartbeatRequest, HeartbeatResponse
from kraftspec.reference.wire.frames import request_header, response_header, sized

REQUEST = sized(
    request_header(HeartbeatRequest, 4, 7, "me"), HeartbeatRequest(group_id="g").encode(4)
)
ANSWER = sized(response_header(HeartbeatResponse, 4, 7), HeartbeatResponse(error_code=25).encode(4))


def test_frames_come_in_pieces_and_together() -> None:
    transcript = transcript_of_client()
    tape = Tape(transcript, 2)
    for at in range(len(REQUEST)):
        tape.received(REQUEST[at : at + 1])
    tape.sent(ANSWER + ANSWER)
    tape.end(by_client=True)
    request, *answers, end = [entry.to_json() for entry in transcript.entries]
    assert (request["from"], request["to"], request["fields"]["groupId"]) == (0, 2, "g")
    assert request["hex"] == REQUEST[4:].hex()
    assert [(one["from"], one["to"], one["fields"]["errorCode"]) for one in answers] == [
        (2, 0, 25), (2, 0, 25),
    ]  # fmt: skip
    assert end["what"] == "the client closes a connection between them"
    assert transcript.lines()[0].split() == ["client", "2"]


def test_what_is_no_answer_is_noted_as_bytes() -> None:
    transcript = transcript_of_client()
    tape = Tape(transcript, 1)
    tape.received(REQUEST + b"\0\0\0\2xx")
    tape.sent(b"\0\0\0\4\0\0\0\x63")  # To request 99.
    tape.sent(b"\0\0\0\0" + ANSWER[:-1])
    tape.end(by_client=False)
    short, other, empty, cut, end = [entry.to_json() for entry in transcript.entries][1:]
    assert (short["from"], bytes.fromhex(short["hex"])) == (0, b"\0\0\0\2xx")
    assert (other["from"], bytes.fromhex(other["hex"])) == (1, b"\0\0\0\4\0\0\0\x63")
    assert {one["what"] for one in (short, other, empty)} == {"a frame that belongs to no request"}
    assert (cut["what"], cut["hex"]) == ("the beginning of a frame", ANSWER[:-1].hex())
    assert end["what"] == "broker 1 closes a connection between them"


def test_a_body_that_cannot_be_decoded_is_shown_in_hex() -> None:
    transcript = transcript_of_client()
    tape = Tape(transcript, 1)
    tape.received(REQUEST)
    broken = sized(ANSWER[4:9], b"\xff")
    tape.sent(broken)
    answer = transcript.entries[1].to_json()
    assert answer["what"].startswith("Heartbeat v4 response 7 that cannot be read")
    assert (answer["hex"], answer["fields"]) == (broken[4:].hex(), None)
