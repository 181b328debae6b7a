"""A proxy in a thread of its own, for programs that block, such as tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kraftspec.loop_thread import LoopThread
from kraftspec.proxy.rules import Rule
from kraftspec.proxy.server import FaultProxy

if TYPE_CHECKING:
    from kraftspec.proxy.connection import Address
    from kraftspec.proxy.engine import ActiveRule

DO_TIMEOUT_S: Final = 30.0
_Result = TypeVar("_Result")


class BackgroundProxy:
    """``with BackgroundProxy() as proxy``: a FaultProxy, to be used from other threads.

    Rules are given as the fields of ``Rule``, and hold while a block runs::

        with proxy.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2) as rule:
            producer.send(...)
        assert rule.acted == 2
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of FaultProxy; addresses are rewritten unless they say otherwise."""
        self._options = {"must_rewrite": True, **options}
        self._thread = LoopThread("kraftspec proxy", DO_TIMEOUT_S)
        self.proxy: FaultProxy

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.proxy = self._thread.run(self._make())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._thread.run(self.proxy.close())
        finally:
            self._thread.stop()

    def listen(self, target: str, *, node_id: int | None = None, port: int = 0) -> str:
        """Stand before a node, ``HOST:PORT``; return the address to connect to."""
        host, _, number = target.rpartition(":")
        address: Address = (host.strip("[]"), int(number))
        link = self._thread.run(self.proxy.listen(address, node_id=node_id, port=port))
        return f"{link.address[0]}:{link.address[1]}"

    # ---- rules ---------------------------------------------------------------------------------

    def add(self, **fields: Any) -> ActiveRule:
        """Add a rule. Raises RuleError, and TypeError for a field that there is not."""
        rule = Rule(**fields)
        return self._call(lambda: self.proxy.engine.add(rule))

    def remove(self, rule: ActiveRule) -> None:
        """Remove a rule; what it holds goes on."""
        self._call(lambda: self.proxy.engine.remove(rule.name))

    def release(self, rule: ActiveRule) -> int:
        """Let go what a rule holds; return how many frames."""
        return self._call(lambda: self.proxy.engine.release(rule))

    @contextmanager
    def rule(self, **fields: Any) -> Iterator[ActiveRule]:
        """Have a rule while the block runs."""
        active = self.add(**fields)
        try:
            yield active
        finally:
            self.remove(active)

    @contextmanager
    def error(self, api: str, error: str | int, **fields: Any) -> Iterator[ActiveRule]:
        """Answer requests of an API with an error while the block runs."""
        with self.rule(api=api, error=error, **fields) as active:
            yield active

    @property
    def reports(self) -> list[str]:
        """What could not be decoded, and which rules could not act."""
        return self._call(lambda: list(self.proxy.engine.reports))

    # ---- the thread ----------------------------------------------------------------------------

    async def _make(self) -> FaultProxy:
        return FaultProxy(**self._options)

    def _call(self, function: Callable[[], _Result]) -> _Result:
        async def run() -> _Result:
            return function()

        return self._thread.run(run())
