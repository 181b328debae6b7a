"""Kafka logs as tables: an Arrow reader without Spark, and a Spark data source on top of it.

``discover`` finds the segments and checkpoints below a path, ``plan_splits`` divides them into
pieces of work that start at batches, ``read_split`` reads one as Arrow record batches, and
``scan`` does all three in one call. Data that cannot be read is a row of its own, or counted in the
``Report``, or an error, depending on the mode; it is never dropped silently.

Called by the command line and by users of Arrow and Spark; it may import everything but the command
line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kraftspec.extras import extras_named

if TYPE_CHECKING:
    from kraftspec.pipeline.layout import LogFile as LogFile
    from kraftspec.pipeline.layout import discover as discover
    from kraftspec.pipeline.reader import read_split as read_split
    from kraftspec.pipeline.report import DamagedLogError as DamagedLogError
    from kraftspec.pipeline.report import Report as Report
    from kraftspec.pipeline.rows import ReadOptions as ReadOptions
    from kraftspec.pipeline.rows import schema_of as schema_of
    from kraftspec.pipeline.splits import Split as Split
    from kraftspec.pipeline.splits import plan_splits as plan_splits
    from kraftspec.pipeline.stream import scan as scan

# The module of each name: pyarrow is imported only for a name that needs it.
_HOMES = {
    "DamagedLogError": "report",
    "LogFile": "layout",
    "ReadOptions": "rows",
    "Report": "report",
    "Split": "splits",
    "discover": "layout",
    "plan_splits": "splits",
    "read_split": "reader",
    "scan": "stream",
    "schema_of": "rows",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extras_named():
        value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
