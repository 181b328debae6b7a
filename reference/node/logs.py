"""The log of a running node: lines of text, or a JSON object a line.

Everything goes through ``logging``, below ``kraftspec``; what an event is about is in its ``extra``
fields. Values of fields with names like those of secrets are not written, from whatever caller.
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
ASYNCIO: Final = "asyncio"  # Its events about sockets and tasks are about the node's, too.
RATE_LIMIT_S: Final = 10.0
HIDDEN: Final = "[hidden]"
VALUE_CHARS_MAX: Final = 1_000  # A field may contain what a peer sent.

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
        event: dict[str, Any] = {
            "at": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage()[:VALUE_CHARS_MAX],
        }
        for name, value in fields_of(record).items():
            event.setdefault(name, value[:VALUE_CHARS_MAX] if isinstance(value, str) else value)
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=_printable, ensure_ascii=True)


class RateLimitFilter(logging.Filter):
    """Lets an event through once in ``RATE_LIMIT_S``; ``left_out`` counts those between."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._written: dict[tuple[str, int], list[float]] = {}  # By line: when, how many since.

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the event is written."""
        now_s = self._now_s()
        last = self._written.setdefault((record.pathname, record.lineno), [-RATE_LIMIT_S, 0])
        if now_s - last[0] < RATE_LIMIT_S:
            last[1] += 1
            return False
        if last[1]:
            record.left_out = int(last[1])
        last[:] = [now_s, 0]
        return True


@contextmanager
def written(
    form: Form = "text", level: str = "INFO", stream: TextIO | None = None
) -> Iterator[None]:
    """Write what happens to ``stream`` (by default stderr) for as long as the block runs."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    rate_limit = RateLimitFilter()
    loggers = [logging.getLogger(LOGGER), logging.getLogger(ASYNCIO)]
    before = [(logger.level, logger.propagate) for logger in loggers]
    loggers[1].addFilter(rate_limit)
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    loggers[0].setLevel(level)
    loggers[1].setLevel(max(logging.WARNING, loggers[0].level))
    try:
        yield
    finally:
        loggers[1].removeFilter(rate_limit)
        for logger, (was_level, did_propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(was_level)
            logger.propagate = did_propagate
