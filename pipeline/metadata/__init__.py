"""The metadata log as tables: its records, typed, and the image of the cluster that they make.

``records`` reads segments and checkpoints as Arrow, one row a record; ``read_image`` joins a
checkpoint and what was logged after it into the cluster's state at an offset. ``MetadataDecoder``
does for the batches of any reader what ``records`` does for files.
"""

from __future__ import annotations

from kraftspec.pipeline.metadata.records import MetadataDecoder, metadata_schema, records

__all__ = ["MetadataDecoder", "metadata_schema", "records"]
