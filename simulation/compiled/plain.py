"""What plain classes have in the place of ``msgspec.structs``."""

from __future__ import annotations

from typing import Any


def replaced(value: Any, **changes: Any) -> Any:
    """Return another object of the class, with changes."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return value.__class__(**{**fields, **changes})
