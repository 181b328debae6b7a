"""Which profile a file of a log directory belongs to: its meta.properties says it."""

from __future__ import annotations

from pathlib import Path

from kraftspec.reference.log.directory import META_NAME, MetaProperties, NotFormattedError
from kraftspec.reference.metadata.frames import DRAFT_MESSAGES, KAFKA


def profile_near(path: str | Path) -> str:
    """Return the profile of a log directory, or of a file or a directory in one.

    Kafka's, where there is no meta.properties beside it or above it, or one that says nothing.
    """
    found = Path(path)
    for directory in (found, *found.absolute().parents[:2]):
        try:
            data = (directory / META_NAME).read_bytes()
            profile = MetaProperties.parse(data, str(directory)).profile
            return profile if profile in DRAFT_MESSAGES else KAFKA
        except NotFormattedError:
            return KAFKA
        except OSError:
            continue
    return KAFKA
