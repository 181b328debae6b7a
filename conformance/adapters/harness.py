"""The client side of harness protocol 1: an adapter is a process, a request a line, a reply a line.

Requests are JSON objects, one a line, on the adapter's standard input; it answers each with one
line, in order. ``Adapter.run`` and ``Adapter.exchange`` pipeline without deadlock: one loop writes
while there is room and reads whatever has come, and only so many requests are unanswered at a time.

The lines are described by ``schemas/harness.schema.json``. Works where pipes can be polled
(anything but Windows).
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

import msgspec

from kraftspec.conformance.raw.harness import HelloReply

PROTOCOL = 1
LINE_BYTES_MAX = 16 << 20  # The protocol's own limit.
IN_FLIGHT_COUNT_MAX = 512  # Hides the pipe's latency. After a crash all of them are unanswered.
UNSENT_BYTES_MAX = 1 << 20  # Read no further ahead in the caller's requests than this.
CHUNK_BYTES = 1 << 16  # What a pipe holds on Linux.
STDERR_LINE_COUNT_MAX = 20  # The end of a Java stack trace, not all of it,
STDERR_FIRST_LINE_COUNT = 5  # and its beginning, which names a Go panic.
STDERR_BYTES_QUIET = 1 << 20  # Nobody reads more than this; it is a complaint.
STOP_TIMEOUT_S = 5.0
# For hello at least: the process starts before its reply, and may wait for a processor.
START_TIMEOUT_S = 60.0
VERSION_MAX = 32767  # An int16.
SHOWN_CHARS_MAX = 100
SHOWN_BYTES_MAX = 200

Request = Mapping[str, object]
Reply = dict[str, Any]
Line = tuple[str | None, bytes]  # The id that the reply must carry, and the request's line.
Failure = Literal["start", "died", "rubbish", "order", "twice", "timeout", "oversize"]


class Answer(msgspec.Struct, gc=False):
    """A reply that is decoded as far as necessary: ``value`` is JSON text.

    A missing field is None; a missing ``value`` is empty.
    """

    id: Any = None
    hex: Any = None
    value: msgspec.Raw = msgspec.Raw(b"")
    trailing: Any = None
    error: Any = None
    skipped: Any = None


_answer = msgspec.json.Decoder(Answer).decode
_RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")


class AdapterError(Exception):
    """The harness failed, not a test: the adapter did not start, died, hung or spoke wrongly.

    Attributes:
        kind: ``start`` (no such program, no proper hello, or two), ``died``, ``rubbish`` (not a
            JSON object), ``order`` (another request's id, or none), ``twice`` (a second reply to
            one request),
            ``timeout``, ``oversize`` (line too long).
        request: the oldest request without a reply, None where there was none; of ``twice`` the
            one that was answered twice. With several in flight it is the first suspect, not proven
            guilty: an adapter may die with replies still in its buffer. Send it alone to be sure.
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


def version_range(text: str) -> range:
    """Read the versions of a range of hello, ``0-12`` or ``none``; ``ValueError`` for another."""
    if text == "none":
        return range(0)
    match = _RANGE.fullmatch(text)
    if match is None or not int(match[1]) <= int(match[2]) <= VERSION_MAX:
        raise ValueError(f"{_cut(text)!r} is not 0-2 or none")
    return range(int(match[1]), int(match[2]) + 1)


def request_line(request: Request) -> bytes:
    """Return a request as its line; ``ValueError`` for a float that is not finite."""
    text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


class Adapter:
    """An adapter process: ``with Adapter(["my-adapter"]) as adapter: adapter.hello()``.

    After an ``AdapterError`` the process is gone; ``start()`` makes a new one. One caller at a
    time: not safe to share between threads, but for ``kill``.

    Attributes:
        command: program and arguments.
        timeout_s: how long to wait for each single reply, but for hello at least START_TIMEOUT_S.
        timeout_again_s: how long after the first time-out, if that is less; None: as long.
        complaints: what was not as it should be and broke nothing, in sentences; all of them are
            there after ``stop``.
        unasked: the lines found after the last reply by ``stop``.
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
        self.timeout_again_s: float | None = None
        self.complaints: list[str] = []
        self.unasked: list[bytes] = []
        self._cwd = cwd
        self._env = None if env is None else dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._pending: deque[Line] = deque()

    @property
    def running(self) -> bool:
        """Whether it has been started, and neither stopped nor failed."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The number of the process. ``AdapterError`` where none is running."""
        if self._process is None:
            raise AdapterError("died", f"the adapter {self._shown()} is not running: start() it")
        return self._process.pid

    @property
    def unanswered_count(self) -> int:
        """How many requests had no reply when it failed, or have none so far."""
        return len(self._pending)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.kill()
        self.stop()

    def start(self) -> None:
        """Start the process. ``AdapterError`` of kind ``start`` where there is no such program."""
        self.stop()
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,  # What it starts itself is killed with it.
            )
        except OSError as error:
            what = f"cannot start the adapter {self._shown()}: {error.strerror or error}"
            if error.errno in (errno.EACCES, errno.ENOEXEC):
                what += f"; chmod +x {self.command[0]}, or name its interpreter before it"
            raise AdapterError("start", what) from error
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin, self._stdout, self._stderr = (
            pipe.fileno() for pipe in (process.stdin, process.stdout, process.stderr)
        )
        self._poll = select.poll()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe, False)
        self._poll.register(self._stdout, select.POLLIN)
        self._poll.register(self._stderr, select.POLLIN)
        self._pending = deque()
        self._answered: Line | None = None  # The last one: for whom a second reply is.
        self._unsent = bytearray()
        self._writing = False  # Whether standard input is polled too.
        self._lines: deque[bytes] = deque()
        self._partial = bytearray()
        self._stderr_head = bytearray()
        self._stderr_bytes = bytearray()  # The end of its standard error.
        self._stderr_count = 0
        self.unasked = []

    def kill(self) -> None:
        """End the process and what it has started by force, now; another thread may call this."""
        process = self._process
        if process is not None:
            # Not where it has been waited for: its number may be another's by now.
            with suppress(ProcessLookupError, PermissionError):
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> int | None:
        """End the process: by the stop command where it is idle, else by force.

        Returns its exit code (a well-behaved adapter's is 0), or None where none was running.
        """
        process = self._process
        if process is None:
            return None
        idle = not self._pending
        if idle:
            with suppress(OSError):  # It has ended already.
                os.write(self._stdin, b'{"cmd":"stop"}\n')
        else:
            self.kill()
        self._close_input()
        self._drain(process)
        if idle and process.returncode is None:
            self.complaints.append(
                f"the adapter {self._shown()} did not end within {STOP_TIMEOUT_S:g} s of being "
                "told to stop, and was killed"
            )
        elif idle and process.returncode:
            self.complaints.append(
                f"the adapter {self._shown()} ended with exit code {process.returncode} when told "
                f"to stop, and 0 was due{self._stderr_tail()}"
            )
        self.unasked = [*self._lines, *([bytes(self._partial)] if self._partial else [])]
        return self._close(process)

    def hello(self) -> HelloReply:
        """Ask who it is. ``AdapterError`` of kind ``start`` where the answer is not a hello."""
        with self.patient(START_TIMEOUT_S):
            reply = self.request({"cmd": "hello", "protocol": PROTOCOL})
        protocol = reply.get("protocol", PROTOCOL)
        if protocol != PROTOCOL:
            raise self._failed("start", f"speaks protocol {_cut(repr(protocol))}, not {PROTOCOL}")
        try:
            hello = msgspec.convert(reply, HelloReply)
        except msgspec.ValidationError as error:
            detail = _cut(str(reply.get("error", error)))
            raise self._failed("start", f"did not answer hello as it should: {detail}") from error
        sets = {} if hello.sets is msgspec.UNSET else hello.sets
        for where, messages in {
            "messages": hello.messages, **{f"sets.{name}": sets[name] for name in sets}
        }.items():  # fmt: skip
            for message, text in messages.items():
                try:
                    version_range(text)
                except ValueError as error:
                    what = f"says in hello {_cut(f'{where}.{message}')}: {error}"
                    raise self._failed("start", what) from error
        return hello

    @contextmanager
    def patient(self, timeout_s: float) -> Iterator[None]:
        """Within the block, wait at least so long for each reply."""
        usual_s, self.timeout_s = self.timeout_s, max(self.timeout_s, timeout_s)
        try:
            yield
        finally:
            self.timeout_s = usual_s

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
        for _, line in self._replies((_id(request), request_line(request)) for request in requests):
            reply = self._object(line)
            self._settle(reply.get("id"), line)
            yield reply

    def exchange(self, lines: Iterable[Line]) -> Iterator[Answer]:
        """Do as ``run`` does for requests that are lines already, and read the replies less far."""
        for due, line in self._replies(lines):
            try:
                answer = _answer(line)
            except (msgspec.DecodeError, ValueError, RecursionError):
                # A half surrogate is valid JSON; other mistakes are reported here.
                fields = self._object(line)
                value = fields.pop("value", None)
                raw = b"" if value is None else json.dumps(value).encode()
                known = {name: fields[name] for name in Answer.__struct_fields__ if name in fields}
                answer = Answer(**known, value=msgspec.Raw(raw))
            if answer.id != due:
                self._settle(answer.id, line)  # Which says what is wrong with it.
            else:
                self._answered = self._pending.popleft()
            yield answer

    def _replies(self, lines: Iterable[Line]) -> Iterator[tuple[str | None, bytes]]:
        """Send lines and yield the id that is due and the line that came; the caller settles it."""
        if self._process is None:
            raise AdapterError("died", f"the adapter {self._shown()} is not running: start() it")
        while self._pending:
            line = self._line()
            self._settle(self._object(line).get("id"), line)
        source = iter(lines)
        pending, unsent, replies = self._pending, self._unsent, self._lines
        while True:
            while len(pending) < IN_FLIGHT_COUNT_MAX and len(unsent) < UNSENT_BYTES_MAX:
                item = next(source, None)
                if item is None:
                    break
                if len(item[1]) > LINE_BYTES_MAX:
                    raise self._failed("oversize", f"is not to be sent {len(item[1])} bytes")
                pending.append(item)
                unsent += item[1]
            if not pending:
                return
            yield pending[0][0], replies.popleft() if replies else self._line()

    def _line(self) -> bytes:
        """Take the next line, writing meanwhile what can be written."""
        deadline = time.monotonic() + self.timeout_s
        while not self._lines:
            self._pump(deadline)
        return self._lines.popleft()

    def _object(self, line: bytes) -> Reply:
        try:
            reply = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise self._failed(
                "rubbish", f"wrote a line that is not JSON ({error}): {line[:SHOWN_BYTES_MAX]!r}"
            ) from None
        if not isinstance(reply, dict):
            raise self._failed(
                "rubbish", f"wrote a line that is not a JSON object: {line[:SHOWN_BYTES_MAX]!r}"
            )
        return reply

    def _settle(self, id: object, line: bytes) -> None:
        """Take the oldest request off the list, if the reply of this id is to it."""
        due = self._pending[0][0]
        if due is not None and id != due:
            if id is None:
                if "protocol" in self._object(line):
                    raise self._failed("start", "answered hello twice")
                detail = f"{due!r} was due: {line[:SHOWN_BYTES_MAX]!r}"
                raise self._failed("order", f"gave a reply that has no id; {detail}")
            if self._answered is not None and id == self._answered[0]:
                self._pending.appendleft(self._answered)  # The error is about this request.
                raise self._failed("twice", f"answered id {_cut(repr(id))} twice")
            raise self._failed("order", f"answered id {_cut(repr(id))} where {due!r} was due")
        self._answered = self._pending.popleft()

    def _pump(self, deadline: float) -> None:
        """Wait until something can be read or written, and do it once."""
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            what = f"gave no reply within {self.timeout_s:g} s"
            if self._partial:
                what += f", but the beginning of a line: {_shown(self._partial)}"
            if self.timeout_again_s is not None:
                self.timeout_s = min(self.timeout_s, self.timeout_again_s)
            raise self._failed("timeout", what)
        if bool(self._unsent) is not self._writing:
            self._writing = not self._writing
            if self._writing:
                self._poll.register(self._stdin, select.POLLOUT)
            else:
                self._poll.unregister(self._stdin)
        for pipe, _ in self._poll.poll(remaining_s * 1000):
            if pipe == self._stdin:
                try:
                    sent = os.write(pipe, self._unsent[:CHUNK_BYTES])
                    del self._unsent[:sent]
                except BrokenPipeError:
                    self._unsent.clear()  # It has ended; its last replies may still be read.
            elif not self._read(pipe):
                raise self._failed("died", "ended")

    def _read(self, pipe: int) -> bool:
        """Read once from standard output or error; return whether there may be more output."""
        chunk = os.read(pipe, CHUNK_BYTES)
        if pipe == self._stderr:
            if not chunk:
                self._poll.unregister(pipe)
            self._keep_stderr(chunk)
            return True
        if not chunk:
            return False
        first, *rest = chunk.split(b"\n")
        self._partial += first
        for piece in rest:
            self._lines.append(bytes(self._partial))
            self._partial = bytearray(piece)
        if len(self._partial) >= LINE_BYTES_MAX:
            raise self._failed("oversize", f"wrote a line of more than {LINE_BYTES_MAX} bytes")
        return True

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        """Read to the end of both outputs, and wait for the process, for as long as it may take."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        self._lines = deque(self._lines, maxlen=STDERR_LINE_COUNT_MAX)  # One that floods.
        with suppress(AdapterError):  # An endless line: it has been reported already.
            while (remaining_s := deadline - time.monotonic()) > 0:
                ready = self._poll.poll(remaining_s * 1000)
                if not all(self._read(pipe) for pipe, _ in ready):
                    break
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))

    def _failed(self, kind: Failure, what: str) -> AdapterError:
        """End the process and return the error that describes what happened."""
        process = self._process
        assert process is not None
        exit_code: int | None = None
        if kind == "died":
            try:
                exit_code = process.wait(STOP_TIMEOUT_S)
                what += f" with exit code {exit_code}"
            except subprocess.TimeoutExpired:
                what = "closed its output and lived on"
            if self._partial:
                what += f", in the midst of a line: {_shown(self._partial)}"
        self.kill()
        with suppress(BlockingIOError):  # Its last output.
            while self._stderr_count < STDERR_BYTES_QUIET and (
                chunk := os.read(self._stderr, CHUNK_BYTES)
            ):
                self._keep_stderr(chunk)
        request = json.loads(self._pending[0][1]) if self._pending else None
        message = f"the adapter {self._shown()} {what}"
        if request is not None:
            of = "of" if kind == "twice" else "unanswered"
            message += f"; {of}: {json.dumps(request, default=str)[:500]}"
        message += self._stderr_tail()
        self._close_input()
        self._close(process)
        return AdapterError(kind, message, request=request, exit_code=exit_code)

    def _keep_stderr(self, chunk: bytes) -> None:
        self._stderr_head += chunk[: CHUNK_BYTES - len(self._stderr_head)]
        self._stderr_bytes += chunk
        self._stderr_count += len(chunk)
        del self._stderr_bytes[:-CHUNK_BYTES]

    def _stderr_tail(self) -> str:
        lines = self._stderr_bytes.decode(errors="replace").splitlines()
        if not lines:
            return ""
        if self._stderr_count <= CHUNK_BYTES and len(lines) <= STDERR_LINE_COUNT_MAX:
            return "\n".join(["\nIts standard error:", *lines])
        first = self._stderr_head.decode(errors="replace").splitlines()[:STDERR_FIRST_LINE_COUNT]
        return "\n".join(
            ["\nIts standard error begins:", *first, "and ends:", *lines[-STDERR_LINE_COUNT_MAX:]]
        )

    def _close_input(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        if self._writing:
            self._poll.unregister(self._stdin)
            self._writing = False
        process.stdin.close()

    def _close(self, process: subprocess.Popen[bytes]) -> int:
        if self._stderr_count > STDERR_BYTES_QUIET:
            self.complaints.append(
                f"the adapter {self._shown()} wrote {self._stderr_count:,} bytes to its standard "
                "error, which is for people"
            )
        self.kill()
        exit_code = process.wait()
        self._process = None
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        return exit_code

    def _shown(self) -> str:
        """Name the program, without a class path of a thousand characters."""
        shown = " ".join(self.command)
        if len(shown) <= SHOWN_CHARS_MAX:
            return shown
        return f"{self.command[0]} … {self.command[-1]}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_BYTES_MAX else f"{text[:SHOWN_BYTES_MAX]}…"


def _id(request: Request) -> str | None:
    return str(request["id"]) if "id" in request else None


def _shown(partial: bytearray) -> str:
    return f"{bytes(partial[:SHOWN_BYTES_MAX])!r} without an end of line"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
