"""The message schemas: every message that this project knows, as JSON, one file a message.

``kafka/`` is a release of Apache Kafka, by module; ``kafka/RELEASE`` names it. ``kip-595/``,
``kip-853/`` and ``kip-996/`` are the first drafts of these KIPs, repaired, with every repair listed
in their ERRATA.md.
``message.schema.json`` is the schema language itself, and ``errors.json`` and ``api-keys.json``
give numbers their names; ``history.json`` says which release of Kafka changed what.
Everything else in this project is generated from these files or checked by them: a package that
needs to know something about the wire reads a spec and keeps no copy.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def specs_root() -> Path:
    """Return the directory of the specs that came with this package.

    A directory of the checkout when the install is editable, and of the unpacked wheel otherwise.
    """
    return Path(str(files(__name__)))


def kafka_release() -> str:
    """Return the release of Apache Kafka that ``specs/kafka`` is, such as ``4.4.0``."""
    return (specs_root() / "kafka" / "RELEASE").read_text("utf-8").strip()
