"""Columns of encoded messages as columns of structs, for Arrow and for Spark.

``decode_message`` decodes, ``arrow_type`` says what comes out, ``split_requests`` tells what frames
of requests are. ``spark`` has both for Spark.
"""

from __future__ import annotations

from kraftspec.extras import extras_named

with extras_named():
    from kraftspec.pipeline.messages.decode import MessageDecodeError, decode_message
    from kraftspec.pipeline.messages.requests import split_requests
    from kraftspec.pipeline.messages.schema import arrow_type

__all__ = ["MessageDecodeError", "arrow_type", "decode_message", "split_requests"]
