"""Which compiled modules there are: the one place that decides between native and pure Python."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

PURE_VARIABLE = "KRAFTSPEC_PURE"
COMPILED = ("_batch_reader", "_batch_writer", "_columns", "_crc", "_engine", "_record_text")
PURE = os.environ.get(PURE_VARIABLE, "") not in ("", "0")


def load(name: str) -> Any:
    """Return the compiled module ``fastpath.<name>``, or None where pure Python does its work.

    None when KRAFTSPEC_PURE is set, and when the module was not built (there was no compiler).
    A module that is there and does not load raises ImportError: that is a broken installation,
    not a slow one.
    """
    if PURE:
        return None
    module = f"kraftspec.fastpath.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None


def describe() -> str:
    """Say in a few words which codec runs, and why if it is not the native one."""
    if PURE:
        return f"pure Python ({PURE_VARIABLE} is set)"
    if load("_engine") is None:
        return "pure Python (the native modules were not built: reinstall with a C compiler)"
    absent = [name for name in COMPILED if find_spec(f"{__package__}.{name}") is None]
    return f"native, but {', '.join(absent)} not built: reinstall" if absent else "native"
