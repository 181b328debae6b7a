"""Spark's filters as those of the Arrow core: what is taken here, Spark does not look at again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

# A filter of the core: its column, an operator, and a value or several.
Term = tuple[str, str, Any]

_COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "==", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<=",
}  # fmt: skip
_OPPOSITE: Final = {"==": "!=", ">": "<=", ">=": "<", "<": ">=", "<=": ">", "in": "not in"}
_TEXTS: Final = frozenset({"topic", "file"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def term_of(filter_: Filter, columns: Mapping[str, str]) -> Term | None:
    """Return the core's filter that keeps exactly the same rows, or None where it has none.

    ``columns`` are those that the core can filter, by their names in Spark, of any case.
    """
    is_negated = isinstance(filter_, Not)
    if isinstance(filter_, Not):
        filter_ = filter_.child
    comparison = "in" if isinstance(filter_, In) else _COMPARISONS.get(type(filter_))
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    if comparison is None or len(path) != 1:
        return None
    core = next((columns[name] for name in columns if name.lower() == path[0].lower()), None)
    value: Any = getattr(filter_, "value", None)
    if is_negated:
        if comparison == "in" and None in value:
            return None  # That is true of nothing, for SQL.
        comparison = _OPPOSITE[comparison]
    if core is None:
        return None
    if core == "timestamp":
        if isinstance(value, datetime) and comparison in _ROUNDED:
            return core, *_in_milliseconds(comparison, value)
        return None
    kind = str if core in _TEXTS else int
    if not _all(value, comparison, kind) or (kind is str and comparison not in _EQUALITIES):
        return None
    return core, comparison, _values(value, comparison)


_EQUALITIES: Final = frozenset({"==", "!=", "in", "not in"})
_ROUNDED: Final = frozenset({"==", "<", "<=", ">", ">="})


def _values(value: Any, comparison: str) -> Any:
    if comparison in ("in", "not in"):
        return [one for one in value if one is not None]  # Nothing equals null.
    return value


def _all(value: Any, comparison: str, kind: type) -> bool:
    values = _values(value, comparison) if comparison in ("in", "not in") else [value]
    return all(type(one) is kind for one in values)


def _in_milliseconds(comparison: str, value: datetime) -> tuple[str, Any]:
    """Compare with whole milliseconds, which is all that Kafka has, instead of microseconds."""
    zoned = value if value.tzinfo else value.replace(tzinfo=UTC)
    milliseconds, rest = divmod(zoned - _EPOCH, timedelta(milliseconds=1))
    if rest and comparison == "==":
        return "in", []
    # Between two milliseconds: greater than the lower is at least the upper.
    if rest and comparison in ("<", ">="):
        milliseconds += 1
    return comparison, milliseconds
