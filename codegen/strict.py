"""The base of the raw typed models: JSON objects that may hold no key but their own."""

from __future__ import annotations

import msgspec


class Strict(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A JSON object; decoding one with a key that its schema lacks is an error."""
