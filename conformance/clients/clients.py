"""The clients that have a driver: a folder of ``drivers/`` each, built when it is first used.

A folder has the driver and an ``adapter.toml``, in the form that the adapters of codecs have
(`kraftspec.conformance.adapters.registry`), which also builds it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from kraftspec.conformance.adapters.registry import AdapterSpec, adapters, find

DIRECTORY = Path(__file__).resolve().parent / "drivers"
REFERENCE = "kraftspec"


def names() -> list[str]:
    """Return the names of the clients that have a driver."""
    return [REFERENCE, *(spec.name for spec in specs())]


def specs() -> tuple[AdapterSpec, ...]:
    """Return the drivers of real clients."""
    return adapters(DIRECTORY)


def known_file(client: str) -> Path:
    """Return the file of what a client is known to fail; it need not be there."""
    return DIRECTORY.with_name("known") / f"{client.partition('@')[0]}.toml"


def checked(client: str) -> str:
    """Return the name of a client. Raises ValueError where there is no driver of it."""
    name = client.partition("@")[0]
    if not client.startswith("exec:") and name not in names():
        raise ValueError(f"there is no driver of {name!r}: {', '.join(names())}, or exec:CMD")
    return client


def command_of(client: str) -> list[str]:
    """Return the command of a driver, built first where need be: a name, or ``exec:CMD``.

    Raises ValueError where there is none, AdapterBuildError where it cannot be built.
    """
    if client.startswith("exec:"):
        program, *rest = shlex.split(client[5:]) or [""]
        if not program:
            raise ValueError("exec: needs a command")
        # Not resolved: the interpreter of a virtual environment is a link, and says which.
        return [str(Path(program).absolute()) if Path(program).exists() else program, *rest]
    if client == REFERENCE:
        return [sys.executable, "-m", "kraftspec.conformance.clients.reference"]
    return find(checked(client), DIRECTORY).command()
