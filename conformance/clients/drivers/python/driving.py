"""What the drivers in Python have in common: lines in, lines out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

Ask = dict[str, Any]


def drive(
    client: str, version: str, make: Callable[[Ask], Any], cannot: Sequence[str] = ()
) -> None:
    """Greet, then answer lines; ``make`` connects, and returns what has a method for each verb.

    What they raise is the answer to the line. A client that could not be made is made by the next.
    """
    say(protocol=1, client=client, version=version, language="python", cannot=list(cannot))
    driven: Any = None
    connect: Ask = {}
    for line in sys.stdin:
        ask: Ask = json.loads(line)
        values: list[str] = []
        try:
            if ask["verb"] == "close":
                if driven is not None:
                    driven.close(ask)
                driven = None
                say(ok=True)
                continue
            if ask["verb"] == "connect":
                connect, driven = ask, None
            driven = driven or make(connect)
            if ask["verb"] != "connect":
                values = getattr(driven, ask["verb"])(ask) or []
        except Exception as error:
            say(ok=False, error=f"{type(error).__name__}: {error}"[:500])
        else:
            say(ok=True, values=values)


def say(**words: Any) -> None:
    """Write a line."""
    print(json.dumps(words), flush=True)
