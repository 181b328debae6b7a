"""A target that is no node: it answers ApiVersions and grants every vote. For tests."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path

from kraftspec.conformance.making.exchanges.peers import versions_answer
from kraftspec.conformance.making.exchanges.requests import vote_answer
from kraftspec.generated.kafka import ApiVersionsResponse, VoteRequest, VoteResponse
from kraftspec.reference.log.properties import parse_properties
from kraftspec.reference.wire.blocking import receive_frames
from kraftspec.reference.wire.frames import FrameReader, peek_request, response_header, sized


def serve(connection: socket.socket) -> None:
    for frame in receive_frames(connection, FrameReader()):
        key, version, correlation_id = peek_request(frame)
        if key == VoteRequest.API_KEY:
            header = response_header(VoteResponse, version, correlation_id)
            connection.sendall(sized(header, vote_answer(1, granted=True).encode(version)))
        else:
            header = response_header(ApiVersionsResponse, version, correlation_id)
            connection.sendall(sized(header, versions_answer().encode(version)))


verb, directory = sys.argv[1:3]
if verb == "start":
    properties = parse_properties((Path(directory) / "node.properties").read_text())
    port = int(properties["listeners"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
elif verb == "stop":
    os.kill(int(os.environ["NODE_PID"]), signal.SIGKILL)
