"""The message schemas: every message that this project knows, as JSON, one file a message.

``kafka/`` is Apache Kafka 4.3.1, by module. ``kip-595/``, ``kip-853/`` and ``kip-996/`` are the
first drafts of these KIPs, repaired, with every repair listed in their ERRATA.md.
``message.schema.json`` is the schema language itself, and ``errors.json`` and ``api-keys.json``
give numbers their names. Everything else in this project is generated from these files or checked
by them: a package that needs to know something about the wire reads a spec and keeps no copy.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def specs_root() -> Path:
    """Return the directory of the specs that came with this package.

    A directory of the checkout when the install is editable, and of the unpacked wheel otherwise.
    """
    return Path(str(files(__name__)))
