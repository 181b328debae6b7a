"""Filters as pyarrow.dataset has them: tuples that must all hold, or a list of such lists.

``[("offset", ">=", 5), ("topic", "in", ["a", "b"])]`` keeps rows for which both hold;
``[[("offset", "<", 5)], [("offset", ">", 9)]]`` those for which either list does. Timestamps are
milliseconds, or datetimes with a time zone.

A filter is asked three times: of a file and of a batch by the ranges that they are known to hold
(``may_match``), and in the end of every row, exactly (``mask``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kraftspec.fastpath.columns import COLUMNS

_BYTES = frozenset({"key", "value", "headers"})
FILTER_COLUMNS: Final = (
    *(name for name in COLUMNS if name not in _BYTES), "topic", "partition", "file",
)  # fmt: skip

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_COMPUTE = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip
OPERATORS: Final = (*_COMPARE, "=", "in", "not in")

Range = tuple[Any, Any]  # The least and the greatest, both of them included.
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Term(msgspec.Struct, frozen=True):
    """One comparison of a column with a value, or with several (``in``, ``not in``)."""

    column: str
    comparison: str
    value: Any

    def may_match(self, range_: Range) -> bool:
        """Whether a value of this range can match; a range of None is one that has no value."""
        least, greatest = range_
        if least is None:
            return False
        if self.comparison == "in":
            return any(least <= value <= greatest for value in self.value)
        if self.comparison in ("!=", "not in"):
            excluded = self.value if self.comparison == "not in" else (self.value,)
            return not (least == greatest and least in excluded)
        if self.comparison == "==":
            return bool(least <= self.value <= greatest)
        edge = least if self.comparison.startswith("<") else greatest
        return _COMPARE[self.comparison](edge, self.value)

    def mask(self, column: Any) -> Any:
        """Return for each row whether it matches; null does not."""
        if pa.types.is_timestamp(column.type):
            column, value = column.cast(pa.int64()), self._scaled(column.type.unit)
        else:
            value = self.value
        if self.comparison in ("in", "not in"):
            known = pa.array([one for one in value if _fits(one, column.type)], column.type)
            matches = pc.is_in(column, value_set=known)
            if self.comparison == "not in":
                matches = pc.and_(pc.invert(matches), pc.is_valid(column))
            return matches
        if isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
            # Every value of the column is on the same side of this one.
            is_matched = _COMPARE[self.comparison](0, value)
            return pc.and_(pc.is_valid(column), pa.scalar(is_matched))
        return _COMPUTE[self.comparison](column, _wide(value))

    def _scaled(self, unit: str) -> Any:
        scale = 1000 if unit == "us" else 1
        if isinstance(self.value, tuple):
            return tuple(value * scale for value in self.value)
        return self.value * scale


def _wide(value: Any) -> Any:
    return value if isinstance(value, (str, bool)) else pa.scalar(value, pa.int64())


def _fits(value: Any, kind: Any) -> bool:
    try:
        pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError):
        return False  # No value of the column is that.
    return True


class Filter(msgspec.Struct, frozen=True):
    """A filter in disjunctive form: any of ``conjunctions``, in each of which all hold."""

    conjunctions: tuple[tuple[Term, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the filter, each once."""
        return tuple(dict.fromkeys(term.column for terms in self.conjunctions for term in terms))

    def may_match(self, ranges: Mapping[str, Range]) -> bool:
        """Whether any row can match, by the ranges that are known; an unknown one can."""
        return any(
            all(term.column not in ranges or term.may_match(ranges[term.column]) for term in terms)
            for terms in self.conjunctions
        )

    def mask(self, column: Callable[[str], Any]) -> Any:
        """Return for each row whether it matches, ``column`` giving a column by its name."""
        masks = [
            reduce(pc.and_kleene, (term.mask(column(term.column)) for term in terms))
            for terms in self.conjunctions
        ]
        return reduce(pc.or_kleene, masks)

    def bounds(self, column: str) -> Range:
        """Return the integers between which ``column`` must lie, None where there is no bound."""
        spans = [_span(term for term in terms if term.column == column)
                 for terms in self.conjunctions]  # fmt: skip
        least = [span[0] for span in spans]
        greatest = [span[1] for span in spans]
        return (
            None if None in least else min(least),
            None if None in greatest else max(greatest),
        )


def _span(terms: Iterable[Term]) -> Range:
    least: int | None = None
    greatest: int | None = None
    for term in terms:
        low: int | None = None
        high: int | None = None
        if term.comparison in ("==", ">=", ">"):
            low = term.value + (term.comparison == ">")
        if term.comparison in ("==", "<=", "<"):
            high = term.value - (term.comparison == "<")
        if term.comparison == "in" and term.value:
            low, high = min(term.value), max(term.value)
        least = low if least is None else least if low is None else max(least, low)
        greatest = high if greatest is None else greatest if high is None else min(greatest, high)
    return least, greatest


def _value(column: str, value: Any) -> Any:
    if isinstance(value, datetime) and column == "timestamp":
        if value.tzinfo is None:
            raise ValueError(f"the time {value} of a filter has no time zone")
        milliseconds, rest = divmod(value - _EPOCH, timedelta(milliseconds=1))
        if rest:
            raise ValueError(f"timestamps are whole milliseconds, and {value} is not")
        return milliseconds
    types: tuple[type, ...] = (str,) if column in ("topic", "file") else (int,)
    if not isinstance(value, types) or isinstance(value, bool) != column.startswith("is_"):
        kind = "a bool" if column.startswith("is_") else "text" if types == (str,) else "an integer"
        raise ValueError(f"the filter on {column} takes {kind}, not {value!r}")
    return value


def _term(term: Any) -> Term:
    if not isinstance(term, (tuple, list)) or len(term) != 3:  # noqa: PLR2004 - column, op, value
        raise ValueError(f"a filter is a tuple (column, operator, value), not {term!r}")
    column, comparison, value = term
    if column not in FILTER_COLUMNS:
        raise ValueError(
            f"there is no filter on {column!r}; there is on {', '.join(FILTER_COLUMNS)}"
        )
    if comparison not in OPERATORS:
        raise ValueError(f"there is no operator {comparison!r}, but {', '.join(OPERATORS)}")
    if comparison in ("in", "not in"):
        return Term(column, comparison, tuple(_value(column, each) for each in value))
    return Term(column, "==" if comparison == "=" else comparison, _value(column, value))


def parse_filters(filters: Any) -> Filter | None:
    """Return the filter of tuples, or of lists of tuples; None when there are none.

    Raises ValueError, naming the tuple, the column or the operator that is wrong.
    """
    if filters is None or isinstance(filters, Filter):
        return filters
    if not isinstance(filters, (list, tuple)):
        raise ValueError(f"filters are a list of tuples, not {filters!r}")
    if not filters:
        return None
    is_flat = isinstance(filters[0], tuple) or (
        isinstance(filters[0], list) and filters[0] and isinstance(filters[0][0], str)
    )
    lists = [filters] if is_flat else filters
    if not all(lists):
        raise ValueError("a list of filters that is empty would match all; leave it out")
    return Filter(tuple(tuple(_term(term) for term in terms) for terms in lists))
