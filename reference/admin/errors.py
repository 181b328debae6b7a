"""What an admin call may end with."""

from __future__ import annotations


class AdminError(Exception):
    """A call was not done; the text says why, and what to do where that is known."""


class TimedOutError(AdminError):
    """No answer that settles it came in time; the text has what happened last."""


class AnswerError(AdminError):
    """A node refused.

    ``code`` is Kafka's error code, ``message`` its own words, or None where it gave none.
    """

    def __init__(self, code: int, message: str | None = None, *, advice: str = "") -> None:
        self.code = code
        self.message = message
        text = f"{code_name(code)} ({code})"
        if message and message != code_name(code):
            text += f": {message}"
        super().__init__(f"{text}. {advice}" if advice else text)


def error_text(error: BaseException) -> str:
    """Return what an error says; of the system's own without its number."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error) or type(error).__name__


def address(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def code_name(code: int) -> str:
    """Return the name of an error code, Kafka's or a draft's; any other is said to be unknown."""
    from kraftspec.generated.errors import (  # noqa: PLC0415 - a call that is done has none
        DraftErrorCode,
        ErrorCode,
    )

    for known in (ErrorCode, DraftErrorCode):
        if code in list(known):
            return known(code).name
    return "unknown error"
