"""Small messages made for one test each, and the three ways to decode and encode them."""

from __future__ import annotations

import functools
import importlib
import json
import sys
import tempfile
from importlib import import_module
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from kraftspec.codegen.python_target import render_message
from kraftspec.codegen.reader import check_text
from kraftspec.conformance.adapters.ours import SETS
from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.interpret import Decoder, Encoder
from kraftspec.fastpath.message import Message

Field = dict[str, Any]
_numbers = count()
FILES = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in vectors_root().glob("*/*.json")
    # A batch has no plan (test_record_batch.py has it), the other is no message.
    if path.parent.name in ("kafka", *SETS) and path.stem not in ("RecordBatch", "NoSuchMessage")
)


def field(name: str, type: str, versions: str = "0+", **more: Any) -> Field:
    return {"name": name, "type": type, "versions": versions, **more}


def tagged(tag: int, name: str, type: str, versions: str = "0+", **more: Any) -> Field:
    return field(name, type, versions, tag=tag, taggedVersions=versions, **more)


def message(*fields: Field, flexible: str = "0+", versions: str = "0-2", **more: Any) -> Any:
    """Generate and import the class of a message ``Sample`` with these fields."""
    spec = {
        "type": "data", "name": "Sample", "validVersions": versions,
        "flexibleVersions": flexible, "fields": fields, **more,
    }  # fmt: skip
    return _class(json.dumps(spec))


@functools.cache
def _class(text: str) -> Any:
    spec, diagnostics = check_text(text, "Sample.json")
    assert spec is not None, [str(diagnostic) for diagnostic in diagnostics]
    package = f"sample_codecs_{next(_numbers)}"
    sys.modules[package] = ModuleType(package)
    with tempfile.TemporaryDirectory() as directory:
        sys.modules[package].__path__ = [directory]
        for name, text_of in render_message(spec, "Sample.json").items():
            path = Path(directory, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text_of)
        importlib.invalidate_caches()
        cls = getattr(import_module(f"{package}.sample"), "Sample")  # noqa: B009 - untyped
        cls.CODEC.encoders  # noqa: B018 - loads the rendered code while its file is there
    return cls


def message_class(name: str) -> type[Message]:
    """Return the class of ``set/Message``."""
    spec, _, message_name = name.partition("/")
    package = import_module(f"kraftspec.generated.{spec.replace('-', '_')}")
    cls: type[Message] = getattr(package, message_name)
    return cls


@functools.cache
def vectors_of(name: str) -> list[dict[str, Any]]:
    """Return the golden vectors of ``set/Message`` that are valid."""
    loaded: dict[str, Any] = json.loads((vectors_root() / f"{name}.json").read_bytes())
    return [test for test in loaded["tests"] if test["result"] == "valid"]


def exactly(value: Any) -> str:
    """Distinguish 1, 1.0 and true, as ``==`` does not."""
    return json.dumps(value, sort_keys=True)


def by_straight_line(cls: type[Message], data: bytes | memoryview, version: int) -> Any:
    """Decode by the rendered functions alone; None when they reject."""
    try:
        value, end = cls.CODEC.decoders[version](data, 0)
    except Exception:
        return None
    return value if end == len(data) else None


def by_interpreter(cls: type[Message], data: bytes, version: int, lenient: bool = False) -> Any:
    """Decode by the interpreter alone; None when it refuses."""
    codec = cls.CODEC
    decoder = Decoder(data, 0, codec.layouts, codec.make, lenient=lenient)
    try:
        value = decoder.struct(codec.layout(version))
    except CodecError:
        return None
    return value if lenient or decoder.at == len(data) else None


def put_by_straight_line(value: Message, version: int) -> bytes | None:
    """Encode by the rendered functions alone; None when they reject."""
    parts: list[bytes] = []
    try:
        value.CODEC.encoders[version](value, parts.append)
        return b"".join(parts)
    except Exception:
        return None


def put_by_interpreter(value: Message, version: int) -> bytes | None:
    """Encode by the interpreter alone; None when it refuses."""
    codec = value.CODEC
    try:
        encoded: bytes = Encoder(codec.layouts, codec.structs).struct(codec.layout(version), value)
    except CodecError:
        return None
    return encoded
