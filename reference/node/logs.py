"""What a node says while it runs: lines for people, or a JSON object a line.

Everything goes through ``logging``, below ``kraftspec``; what an event is about is in its ``extra``
fields. Values of fields whose names sound like secrets are not written, whoever put them there.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TextIO

LOGGER: Final = "kraftspec"
ASYNCIO: Final = "asyncio"  # What it says of sockets and tasks is of the node's, too.
SELDOM_S: Final = 10.0
HIDDEN: Final = "[hidden]"
VALUE_CHARS_MAX: Final = 1_000  # What peers send may stand in a field.

Form = Literal["text", "json"]

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRET: Final = re.compile(r"password|secret|jaas|credential|token|private", re.IGNORECASE)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what an event is about, without secrets."""
    return {
        name: HIDDEN if _SECRET.search(name) else value
        for name, value in vars(record).items()
        if name not in _OWN
    }


def _printable(value: Any) -> str:
    """Return a value on one line, whatever a peer has put into it."""
    text = str(value)[:VALUE_CHARS_MAX]
    return "".join(it if it.isprintable() else it.encode("unicode_escape").decode() for it in text)


class TextFormatter(logging.Formatter):
    """``2026-01-31 12:00:00.123 INFO leader changed epoch=3 leader=1``, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the trace of an exception below it."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
        fields = (f"{name}={_quoted(value)}" for name, value in fields_of(record).items())
        head = f"{moment}.{int(record.msecs):03d} {record.levelname} "
        line = " ".join((head + _printable(record.getMessage()), *fields))
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _quoted(value: Any) -> str:
    text = _printable(value)
    return json.dumps(text, ensure_ascii=False) if re.search(r'[\s"=]', text) or not text else text


class JsonFormatter(logging.Formatter):
    """An object a line: ``at`` (UTC), ``level``, ``logger``, ``event``, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said: dict[str, Any] = {
            "at": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage()[:VALUE_CHARS_MAX],
        }
        for name, value in fields_of(record).items():
            said.setdefault(name, value[:VALUE_CHARS_MAX] if isinstance(value, str) else value)
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=_printable, ensure_ascii=True)


class Seldom(logging.Filter):
    """Lets an event through once in ``SELDOM_S``, with how many were left out (``left_out``)."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._said: dict[tuple[str, int], list[float]] = {}  # Where: when, and how many since.

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the event is written."""
        now_s = self._now_s()
        said = self._said.setdefault((record.pathname, record.lineno), [-SELDOM_S, 0])
        if now_s - said[0] < SELDOM_S:
            said[1] += 1
            return False
        if said[1]:
            record.left_out = int(said[1])
        said[:] = [now_s, 0]
        return True


@contextmanager
def written(
    form: Form = "text", level: str = "INFO", stream: TextIO | None = None
) -> Iterator[None]:
    """Write what happens to ``stream`` (by default stderr) for as long as the block runs."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    seldom = Seldom()
    loggers = [logging.getLogger(LOGGER), logging.getLogger(ASYNCIO)]
    before = [(logger.level, logger.propagate) for logger in loggers]
    loggers[1].addFilter(seldom)
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    loggers[0].setLevel(level)
    loggers[1].setLevel(max(logging.WARNING, loggers[0].level))
    try:
        yield
    finally:
        loggers[1].removeFilter(seldom)
        for logger, (was_level, did_propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(was_level)
            logger.propagate = did_propagate
