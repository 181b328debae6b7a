"""What ``kraftspec proxy --tui`` draws: who says what to whom, the rules, and what went wrong."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kraftspec.cli.output import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

    from kraftspec.proxy.server import FaultProxy
    from kraftspec.proxy.watch import Key

FRAMES_A_SECOND: Final = 4
RATES_S: Final = 1.0  # Over how long a rate is counted.
LINES_MAX: Final = 100
LINES_SHOWN: Final = 3
RULES_SHOWN: Final = 8
_HEADS: Final = ("who", "asks", "API", "v", "requests", "/s", "B/s", "ms", "open")
_BESIDE_ROWS: Final = 4  # The line above the table, its heads, and space.


class ProxyView:
    """Draws a proxy. Lines of the log are shown below instead of on stderr."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self._proxy = proxy
        self._watch = proxy.watch()
        self._counted: dict[Key, tuple[int, int]] = {}
        self._rates: dict[Key, tuple[float, float]] = {}
        self._counted_at_s = time.monotonic()

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Draw on the whole terminal while the block runs; then it is as it was before."""
        from rich.live import Live

        handler = _Lines(self.lines)
        logger = logging.getLogger("kraftspec")
        logger.addHandler(handler)
        logger.propagate = False
        try:
            with Live(self, console=console(), screen=True, refresh_per_second=FRAMES_A_SECOND):
                yield
        finally:
            logger.propagate = True
            logger.removeHandler(handler)

    def __rich_console__(self, shown: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        self._count()
        rules = self._proxy.engine.rules[:RULES_SHOWN]
        lines = list(self.lines)[-LINES_SHOWN:]
        below: list[RenderableType] = []
        if rules:
            below += [Text(), self._rule_table()]
        below += [Text(line, style="yellow", no_wrap=True, overflow="ellipsis") for line in lines]
        taken = _BESIDE_ROWS + len(lines) + (2 + len(rules) if rules else 0)
        yield Text(self._head(), style="bold", no_wrap=True, overflow="ellipsis")
        yield Text()
        yield self._table(max((options.height or shown.height) - taken, 1))
        yield from below

    def _head(self) -> str:
        proxy = self._proxy
        links = ", ".join(
            f"{link.address[0]}:{link.address[1]} -> {link.target.name}" for link in proxy.links
        )
        frames, size = sum(proxy.stats.frames.values()), sum(proxy.stats.bytes.values())
        return (
            f"{len(proxy.connections)} connections, {frames:,} messages, {_size(size)}; "
            f"Ctrl-C ends; {links}"
        )

    def _table(self, height: int) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, expand=True)
        for name in _HEADS:
            is_text = name in _HEADS[:3]
            table.add_column(
                name, justify="left" if is_text else "right", no_wrap=True, overflow="ellipsis"
            )
        talks = self._watch.talks
        busiest = sorted(talks, key=lambda key: (-self._rates[key][0], -talks[key].requests, key))
        for key in busiest[:height]:
            talk, (requests, size) = talks[key], self._rates[key]
            table.add_row(
                key.client_id or "(no client id)",
                self._named(key.node),
                key.api,
                str(key.version),
                f"{talk.requests:,}",
                f"{requests:,.0f}" if requests else "",
                _size(size) if size else "",
                f"{talk.waited_s * 1000:,.1f}" if talk.answers else "",
                f"{talk.requests - talk.answers:,}" if talk.requests > talk.answers else "",
                style=None if requests else "dim",
            )
        return table

    def _rule_table(self) -> Table:
        from rich.table import Table

        table = Table("rule", "matched", "acted", "holds", box=None, pad_edge=False)
        rules = self._proxy.engine.rules
        for rule in rules[:RULES_SHOWN]:
            held = rule.held
            table.add_row(
                rule.name, f"{rule.matched:,}", f"{rule.acted:,}", f"{held:,}" if held else ""
            )
        return table

    def _named(self, node: str) -> str:
        for link in self._proxy.links:
            if link.target.name == node:
                return " ".join(sorted(link.target.names, key=len))
        return node

    def _count(self) -> None:
        """Count the rates anew, where enough time has passed."""
        now_s, talks = time.monotonic(), self._watch.talks
        passed_s = now_s - self._counted_at_s
        if passed_s >= RATES_S:
            self._rates = {}
            for key, talk in talks.items():
                requests, size = self._counted.get(key, (0, 0))
                self._rates[key] = (
                    (talk.requests - requests) / passed_s,
                    (talk.bytes - size) / passed_s,
                )
            self._counted = {key: (talk.requests, talk.bytes) for key, talk in talks.items()}
            self._counted_at_s = now_s
        for key in talks:
            self._rates.setdefault(key, (0.0, 0.0))


class _Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, lines: deque[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: Any) -> None:
        self._lines.append(f"{time.strftime('%H:%M:%S')}  {record.getMessage()}")


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:  # noqa: PLR2004 - a step of the units
            return f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
