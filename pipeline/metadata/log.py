"""Which of the files below a path are of the metadata log."""

from __future__ import annotations

import posixpath
from typing import Final

from kraftspec.pipeline.files import Filesystem
from kraftspec.pipeline.layout import LogFile, Paths, discover

METADATA_TOPIC: Final = "__cluster_metadata"


def of_metadata_log(file: LogFile) -> bool:
    """Whether a file is of the metadata log, or of a directory without a topic in its name."""
    return file.topic in (METADATA_TOPIC, None)


def metadata_files(path: Paths, filesystem: Filesystem = None) -> list[LogFile]:
    """Return the segments and checkpoints of metadata logs below a path; other topics are not.

    Raises what ``discover`` does, and ValueError when there is no metadata log.
    """
    files = [file for file in discover(path, filesystem) if of_metadata_log(file)]
    if not files:
        raise ValueError(f"there is no metadata log here: no {METADATA_TOPIC}-0")
    return files


def directory_of(file: LogFile) -> str:
    """Return the directory that a file is in: that of its log."""
    return posixpath.dirname(file.path)
