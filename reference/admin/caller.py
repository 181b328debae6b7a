"""Who is asked, and asked again: what every admin client has, whichever protocol it speaks.

One address after another until somebody takes a connection; what can be tried again is, with
Kafka's backoff, until ``default.api.timeout.ms`` is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, TypeVar

from kraftspec.fastpath.errors import CodecError
from kraftspec.reference.admin.config import ClientConfig
from kraftspec.reference.admin.connection import Connection
from kraftspec.reference.admin.errors import AnswerError, TimedOutError, address, error_text

if TYPE_CHECKING:
    from types import TracebackType

_PORT_MAX: Final = 65_535
NOT_LEADER: Final = frozenset({6, 41})  # NOT_LEADER_OR_FOLLOWER, NOT_CONTROLLER
# LEADER_NOT_AVAILABLE, REQUEST_TIMED_OUT, BROKER_NOT_AVAILABLE, NETWORK_EXCEPTION
TRANSIENT: Final = frozenset({5, 7, 8, 13})

_Answer = TypeVar("_Answer")


class Caller:
    """A client that knows some addresses. Nothing is connected before the first call."""

    # Codes that say that another node leads, and those that may be gone when it is tried again.
    not_leader = NOT_LEADER
    transient = TRANSIENT
    # Whether nobody says who leads: all addresses are asked in turn, and only then is there a wait.
    asks_around = False

    def __init__(
        self,
        bootstrap: str,
        *,
        config: ClientConfig | None = None,
        on_retry: Callable[[str], None] | None = None,
    ) -> None:
        """Take ``host:port,…``, time-outs, and who is told why a call is tried again.

        Raises ValueError for what is no address.
        """
        self._addresses = parse_addresses(bootstrap)
        self._config = config or ClientConfig()
        self._on_retry = on_retry
        self._any: Connection | None = None
        self._leader: Connection | None = None
        self._next = 0  # Which address is tried next.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        for connection in {self._any, self._leader} - {None}:
            assert connection is not None
            connection.close()
        self._any = self._leader = None

    def _anyone(self, deadline_s: float) -> Connection:
        """Return a connection to the first address that takes one."""
        if self._any is not None:
            return self._any
        failures = []
        for _ in self._addresses:
            host, port = self._addresses[self._next]
            try:
                self._any = self._connect(host, port, deadline_s)
            except (OSError, CodecError) as error:
                failures.append(error_text(error))
                self._next = (self._next + 1) % len(self._addresses)
            else:
                self._accept(self._any)
                return self._any
        raise ConnectionError("; ".join(failures))

    def _connect(self, host: str, port: int, deadline_s: float) -> Connection:
        """Connect; who cannot be reached is named, once."""
        try:
            return Connection(host, port, self._config, deadline_s)
        except (OSError, CodecError) as error:
            where, why = address(host, port), error_text(error)
            if why.startswith(where):
                raise
            raise ConnectionError(f"{where}: {why}") from error

    def _accept(self, connection: Connection) -> None:
        """Raise AdminError where a node is not of the kind that is to be asked."""

    def _forget(self) -> None:
        """Begin the next search with the next address."""
        self.close()
        self._next = (self._next + 1) % len(self._addresses)

    def _call(
        self,
        attempt: Callable[[float], _Answer],
        retried: frozenset[int] | None = None,
    ) -> _Answer:
        """Try until it is settled, or until the time is up; ``retried`` codes settle nothing."""
        if retried is None:
            retried = self.not_leader | self.transient
        config = self._config
        deadline_s = time.monotonic() + config.api_timeout_ms / 1000
        attempts = redirects = 0
        failure = ""
        is_told = False
        while True:
            try:
                return attempt(deadline_s)
            except AnswerError as error:
                if error.code not in retried:
                    raise
                failure = str(error)
                is_search = error.code in self.not_leader and attempts < len(self._addresses)
                if error.code in self.not_leader:
                    self._forget()
                    redirects += 1
                    if self.asks_around and redirects % len(self._addresses):
                        continue
                    is_search = is_search and not self.asks_around
            except (OSError, CodecError) as error:
                # What came of having no time left says less than what happened before.
                if not failure or time.monotonic() < deadline_s:
                    failure = error_text(error)
                is_search = False
                self._forget()
            if not (is_told or is_search) and self._on_retry is not None:
                self._on_retry(failure)
                is_told = True
            wait_s = backoff_s(config, attempts)
            attempts += 1
            if time.monotonic() + wait_s >= deadline_s:
                times = "once" if attempts == 1 else f"{attempts} times"
                raise TimedOutError(
                    f"nothing settled it within {config.api_timeout_ms:,} ms "
                    f"({config.api_timeout_name}), tried {times}; the last time: {failure}"
                )
            time.sleep(wait_s)


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """Read ``host:port,[host]:port``; ValueError says which address is none."""
    addresses = []
    for one in text.split(","):
        address = one.strip()
        if not address:
            continue
        host, colon, port = address.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not host or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
            raise ValueError(f"{address!r} is no host:port with a port from 1 to {_PORT_MAX}")
        addresses.append((host, int(port)))
    if not addresses:
        raise ValueError(f"{text!r} has no host:port in it")
    return addresses


def backoff_s(config: ClientConfig, failures: int) -> float:
    """Return how long to wait after so many failures before (KIP-580: twice as long, ±20 %)."""
    import random  # noqa: PLC0415 - a call that is answered at once does without

    # Beyond 2 ** 32 the limit holds whatever a configuration says.
    wait_ms = min(config.retry_backoff_ms * 2 ** min(failures, 32), config.retry_backoff_max_ms)
    return float(wait_ms) * random.uniform(0.8, 1.2) / 1000
