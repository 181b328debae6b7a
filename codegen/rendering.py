"""What every target needs: the templates, and the sentences about messages and fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from kraftspec.codegen.model import Field, Message, Struct


@cache
def _environment() -> Environment:
    templates = files("kraftspec.codegen") / "templates"

    def load(name: str) -> str:
        return (templates / name).read_text(encoding="utf-8")

    return Environment(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(template: str, context: Mapping[str, Any]) -> str:
    """Fill a template of ``templates/``."""
    return _environment().get_template(template).render(context)


def headline(message: Message) -> str:
    """Return the sentence that says what a message is."""
    key = "" if message.api_key is None else f", API key {message.api_key}"
    flexible = message.valid_versions & message.flexible_versions
    return (
        f"{message.name}: {message.type}{key}; versions {message.valid_versions}, "
        f"flexible {flexible}."
    )


def struct_headline(message: Message, struct: Struct) -> str:
    """Return the sentence that says what a struct is."""
    if struct is message.top:
        return headline(message)
    return f"{struct.name}, versions {struct.versions & message.valid_versions}."


def field_sentence(message: Message, entry: Field) -> str:
    """Return the type of a field, the versions that it lives in, and what it is about."""
    versions = entry.versions & message.valid_versions
    parts = [str(entry.type)]
    if versions != message.valid_versions:
        parts.append(f"versions {versions}")
    if entry.tag is not None:
        parts.append(f"tag {entry.tag} in {entry.tagged_versions & message.valid_versions}")
    nullable = entry.nullable_versions & versions
    if not nullable.empty:
        parts.append("nullable" if nullable == versions else f"nullable in {nullable}")
    if entry.ignorable:
        parts.append("ignorable")
    if entry.map_key:
        parts.append("map key")
    return ", ".join(parts) + ("." if not entry.about else f". {entry.about}")
