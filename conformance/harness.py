"""The client side of harness protocol 1: an adapter is a process, a request a line, a reply a line.

Requests are JSON objects, one a line, on the adapter's standard input; it answers each with one
line, in order. ``Adapter.run`` pipelines without deadlock: one loop writes while there is room
and reads whatever has come, and only so many requests are unanswered at a time.

The lines are described by ``schemas/harness.schema.json``. Works where pipes can be selected on
(anything but Windows).
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from kraftspec.conformance.raw.harness import HelloReply

PROTOCOL = 1
LINE_BYTES_MAX = 16 << 20  # The protocol's own limit.
IN_FLIGHT_COUNT_MAX = 512  # Enough to hide the pipe's latency; a crash leaves so many unanswered.
UNSENT_BYTES_MAX = 1 << 20  # Read no further ahead in the caller's requests than this.
CHUNK_BYTES = 1 << 16  # What a pipe holds on Linux.
STDERR_LINE_COUNT_MAX = 20  # The end of a Java stack trace, not all of it.
STOP_TIMEOUT_S = 5.0
SHOWN_CHARS_MAX = 100

Request = Mapping[str, object]
Reply = dict[str, Any]
Failure = Literal["start", "died", "rubbish", "order", "timeout", "oversize"]


class AdapterError(Exception):
    """The harness failed, not a test: the adapter did not start, died, hung or spoke wrongly.

    Attributes:
        kind: ``start`` (no such program, or no proper hello), ``died``, ``rubbish`` (not a JSON
            object), ``order`` (another request's id), ``timeout``, ``oversize`` (line too long).
        request: the oldest request without a reply, None where there was none. With several in
            flight it is the first suspect, not proven guilty: an adapter may die with replies
            still in its buffer. Send it alone to be sure.
        exit_code: the process's, where it has ended by itself (negative: a signal).
    """

    def __init__(
        self,
        kind: Failure,
        message: str,
        *,
        request: Request | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.request = request
        self.exit_code = exit_code


def encode_request(
    id: str, message: str, version: int, value: Mapping[str, Any], spec: str | None = None
) -> Request:
    """Build an encode request; ``spec`` names the set, None is kafka."""
    request = {"cmd": "encode", "id": id, "message": message, "version": version, "value": value}
    return request if spec is None else {**request, "spec": spec}


def decode_request(
    id: str, message: str, version: int, hex: str, spec: str | None = None
) -> Request:
    """Build a decode request; ``spec`` names the set, None is kafka."""
    request = {"cmd": "decode", "id": id, "message": message, "version": version, "hex": hex}
    return request if spec is None else {**request, "spec": spec}


class Adapter:
    """An adapter process: ``with Adapter(["my-adapter"]) as adapter: adapter.hello()``.

    After an ``AdapterError`` the process is gone; ``start()`` makes a new one. One caller at a
    time: not safe to share between threads.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout_s: float = 60.0,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Set up ``command`` (not yet started).

        Args:
            command: program and arguments.
            timeout_s: how long to wait for each single reply.
            cwd: working directory of the adapter, None for ours.
            env: its whole environment, None for ours.
        """
        self.command = list(command)
        self.timeout_s = timeout_s
        self._cwd = cwd
        self._env = None if env is None else dict(env)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process. ``AdapterError`` of kind ``start`` where there is no such program."""
        self.stop()
        # A file and not a pipe: nobody need read it for the adapter to go on.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                cwd=self._cwd,
                env=self._env,
            )
        except OSError as error:
            self._stderr.close()
            raise AdapterError(
                "start", f"cannot start the adapter {self._shown()}: {error.strerror or error}"
            ) from error
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._pending: deque[Request] = deque()
        self._unsent = bytearray()
        self._lines: deque[bytes] = deque()
        self._partial = bytearray()

    def stop(self) -> int | None:
        """End the process: by the stop command where it is idle, else by force.

        Returns its exit code (a well-behaved adapter's is 0), or None where none was running.
        """
        process = self._process
        if process is None:
            return None
        try:
            if self._pending:
                process.kill()
            else:
                os.write(self._stdin.fileno(), b'{"cmd":"stop"}\n')
        except OSError:
            pass  # It has ended already.
        return self._close(process)

    def hello(self) -> HelloReply:
        """Ask who it is. ``AdapterError`` of kind ``start`` where the answer is not a hello."""
        reply = self.request({"cmd": "hello", "protocol": PROTOCOL})
        spoken = reply.get("protocol", PROTOCOL)
        if spoken != PROTOCOL:
            raise self._failed("start", f"speaks protocol {spoken}, not {PROTOCOL}")
        try:
            return msgspec.convert(reply, HelloReply)
        except msgspec.ValidationError as error:
            detail = reply.get("error", str(error))
            raise self._failed("start", f"did not answer hello as it should: {detail}") from error

    def request(self, request: Request) -> Reply:
        """Send one request and wait for its reply."""
        [reply] = self.run([request])
        return reply

    def run(self, requests: Iterable[Request]) -> Iterator[Reply]:
        """Send all requests, pipelined, and yield the reply to each, in order.

        Requests are taken from the iterable as room appears, so it may be endless. Leaving off in
        the middle is allowed: what is still in flight is thrown away at the next call.

        Raises:
            AdapterError: with the oldest unanswered request; the process is gone then.
            ValueError: a float that is not finite (the protocol spells it as hex digits).
        """
        if self._process is None:
            raise AdapterError("died", f"the adapter {self._shown()} is not running: start() it")
        while self._pending:
            self._receive()
        source = iter(requests)
        while True:
            while len(self._pending) < IN_FLIGHT_COUNT_MAX and len(self._unsent) < UNSENT_BYTES_MAX:
                request = next(source, None)
                if request is None:
                    break
                self._send(request)
            if not self._pending:
                return
            yield self._receive()

    def _send(self, request: Request) -> None:
        text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode()
        if len(line) >= LINE_BYTES_MAX:
            raise self._failed("oversize", f"is not to be sent a line of {len(line)} bytes")
        self._pending.append(request)
        self._unsent += line
        self._unsent += b"\n"

    def _receive(self) -> Reply:
        """Take the oldest unanswered request's reply, writing meanwhile what can be written."""
        deadline = time.monotonic() + self.timeout_s
        while not self._lines:
            self._pump(deadline)
        line = self._lines.popleft()
        try:
            reply = json.loads(line)
        except ValueError as error:
            raise self._failed(
                "rubbish", f"said what is not JSON ({error}): {line[:200]!r}"
            ) from None
        if not isinstance(reply, dict):
            raise self._failed("rubbish", f"said what is not a JSON object: {line[:200]!r}")
        request = self._pending[0]
        if "id" in request and reply.get("id") != request["id"]:
            raise self._failed(
                "order", f"answered id {reply.get('id')!r} where {request['id']!r} was due"
            )
        self._pending.popleft()
        return reply

    def _pump(self, deadline: float) -> None:
        """Wait until something can be read or written, and do it once."""
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            raise self._failed("timeout", f"gave no reply within {self.timeout_s:g} s")
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if self._unsent:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            ready = [key.fileobj for key, _ in selector.select(remaining_s)]
        if self._stdin in ready:
            try:
                sent = os.write(self._stdin.fileno(), self._unsent[:CHUNK_BYTES])
                del self._unsent[:sent]
            except BrokenPipeError:
                self._unsent.clear()  # It has ended; its last replies may still be read.
        if self._stdout in ready:
            self._read()

    def _read(self) -> None:
        chunk = os.read(self._stdout.fileno(), CHUNK_BYTES)
        if not chunk:
            raise self._failed("died", "ended")
        first, *rest = chunk.split(b"\n")
        self._partial += first
        for piece in rest:
            self._lines.append(bytes(self._partial))
            self._partial = bytearray(piece)
        if len(self._partial) >= LINE_BYTES_MAX:
            raise self._failed("oversize", f"said a line of more than {LINE_BYTES_MAX} bytes")

    def _failed(self, kind: Failure, what: str) -> AdapterError:
        """End the process, and make the error that tells of it."""
        process = self._process
        assert process is not None
        exit_code: int | None = None
        if kind == "died":
            try:
                exit_code = process.wait(STOP_TIMEOUT_S)
                what += f" with exit code {exit_code}"
            except subprocess.TimeoutExpired:
                what = "closed its output"
        process.kill()
        said = self._stderr_tail()
        request = self._pending[0] if self._pending else None
        self._close(process)
        message = f"the adapter {self._shown()} {what}"
        if request is not None:
            message += f"; unanswered: {json.dumps(request, default=str)[:500]}"
        if said:
            message += f"\nIts standard error ends:\n{said}"
        return AdapterError(kind, message, request=request, exit_code=exit_code)

    def _stderr_tail(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - CHUNK_BYTES))
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-STDERR_LINE_COUNT_MAX:])

    def _close(self, process: subprocess.Popen[bytes]) -> int:
        self._process = None
        self._stdin.close()
        try:
            exit_code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            exit_code = process.wait()
        self._stdout.close()
        self._stderr.close()
        return exit_code

    def _shown(self) -> str:
        """Name the program, without a class path of a thousand characters."""
        shown = " ".join(self.command)
        if len(shown) <= SHOWN_CHARS_MAX:
            return shown
        return f"{self.command[0]} … {self.command[-1]}"
