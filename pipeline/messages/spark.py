"""``decode_message`` and ``split_requests`` for Spark.

``df.select(decode_message("value", "FetchRequest", "version"))`` is a column of structs.

Whole Arrow columns go through it in the workers, which need kraftspec, pyarrow and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kraftspec.extras import extras_named
from kraftspec.fastpath.message import Message
from kraftspec.pipeline.messages import decode, requests
from kraftspec.pipeline.messages.schema import arrow_type

with extras_named():
    import pyarrow as pa
    from pyspark.sql.functions import lit
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import DataType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column


def message_type(
    message: str | type[Message], spec_set: str = "kafka", *, errors: bool = False
) -> StructType:
    """Return the Spark type of a message: ``arrow_type``'s, every field nullable."""
    type_ = from_arrow_type(arrow_type(message, spec_set, errors=errors))
    assert isinstance(type_, StructType)
    return type_


def decode_message(
    column: Column | str,
    message: str | type[Message],
    version: Column | str | int,
    *,
    spec_set: str = "kafka",
    mode: decode.Mode = "PERMISSIVE",
    errors: bool = False,
) -> Column:
    """Return a column of structs, decoded from a column of binary; see the Arrow function.

    ``version`` is a number, or a column of any integer type. ``mode="FAILFAST"`` ends the query at
    the first value that is refused.
    """

    def run(values: pa.Array, versions: pa.Array) -> pa.Array:
        return decode.decode_message(
            values, message, versions, spec_set=spec_set, mode=mode, errors=errors
        )

    returned = message_type(message, spec_set, errors=errors)
    versions = lit(version) if isinstance(version, int) else version
    return _over(run, returned)(column, versions).alias(
        message if isinstance(message, str) else message.__name__
    )


def split_requests(column: Column | str, *, spec_set: str = "kafka") -> Column:
    """Return a column of structs: the header and the body of each request; see the Arrow one."""

    def run(frames: pa.Array) -> pa.Array:
        return requests.split_requests(frames, spec_set=spec_set)

    returned = from_arrow_type(requests.REQUEST_TYPE)
    return _over(run, returned)(column).alias("request")


def _over(run: Callable[..., pa.Array], returned: DataType) -> Callable[..., Column]:
    """Wrap a function over Arrow arrays as one over columns; Spark reads its type hints."""
    over: Any = arrow_udf  # Its types require the kind too, but it warns if the kind is passed.
    function: Callable[..., Column] = over(run, returned)
    return function
