"""The metadata log as tables: its records, typed, and the image of the cluster that they make.

``records`` reads segments and checkpoints as Arrow, one row a record. ``read_image`` joins a
checkpoint and what was logged after it into the state of the cluster at an offset, and
``image_tables`` shows it. ``MetadataDecoder`` does for the batches of any reader what ``records``
does for files.
"""

from __future__ import annotations

from kraftspec.extras import extras_named

with extras_named():
    from kraftspec.pipeline.metadata.load import read_image
    from kraftspec.pipeline.metadata.records import MetadataDecoder, metadata_schema, records
    from kraftspec.pipeline.metadata.tables import TABLES, image_tables
    from kraftspec.reference.metadata.image import ImageError, MetadataImage

__all__ = [
    "TABLES", "ImageError", "MetadataDecoder", "MetadataImage", "image_tables", "metadata_schema",
    "read_image", "records",
]  # fmt: skip
