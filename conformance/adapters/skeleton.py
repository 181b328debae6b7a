"""Writes the skeleton of an adapter: a program that walks plans, and the plans beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraftspec.codegen.plan import plan_message
from kraftspec.codegen.reader import read_message
from kraftspec.conformance.adapters.ours import message_class
from kraftspec.fastpath.message import Codec
from kraftspec.fastpath.plan import Layout
from kraftspec.fastpath.values import to_json
from kraftspec.specs import specs_root

TEMPLATE: Final = Path(__file__).parent / "template"
PLANS: Final = "plans.json"
KAFKA: Final = "kafka"  # The set of specs.


class Language(NamedTuple):
    """How a skeleton is built (nothing if it need not be) and run, in its directory."""

    build: str
    run: str


LANGUAGES: Final = {
    "python": Language("", "python adapter.py"),
    "go": Language("go build -o adapter .", "./adapter"),
    "node": Language("", "node adapter.mjs"),
    "rust": Language("cargo build --release", "target/release/adapter"),
    "java": Language("javac *.java", "java -cp . Adapter"),
}


def write_skeleton(language: str, directory: Path, *, replace: bool = False) -> list[Path]:
    """Write the skeleton of a language into a directory; return its files.

    Raises ``FileExistsError`` if one of the files is there and not to be replaced; then nothing is
    written.
    """
    source = TEMPLATE / language
    files = {
        directory / path.relative_to(source): path.read_bytes()
        for path in sorted(source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    files[directory / PLANS] = plans_text().encode()
    for path in files:
        if path.exists() and not replace:
            raise FileExistsError(path)
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(files)


def plans_text() -> str:
    """Return the plans of all messages of Apache Kafka as JSON, a line a plan."""
    lines = []
    for path in sorted((specs_root() / KAFKA).rglob("*.json"), key=lambda path: path.stem):
        message = read_message(path)
        for version in message.valid_versions:
            plan = plan_message(message, version).to_json()
            codec = message_class(KAFKA, message.name).CODEC
            _complete(plan, codec.layout(version), codec)
            lines.append(json.dumps(plan, separators=(",", ":")))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _complete(plan: dict[str, Any], layout: Layout, codec: Codec) -> None:
    """Add to a struct's plan what codecs know: ``laterTags``, defaults that are structs."""
    _, _, fields, tagged, _, later_tags = layout
    plan["laterTags"] = list(later_tags)
    del plan["absent"]  # A field of other versions is refused as any unknown one.
    elements = [entry[4] for entry in fields] + [entry[5] for entry in tagged]
    for field, element in zip(plan["fields"] + plan["tagged"], elements, strict=True):
        if not isinstance(element, int):
            continue
        inner = codec.layouts[element]
        _complete(field["element"], inner, codec)
        if field["wire"] == "struct" and field.get("default") is not None:
            field["default"] = to_json(codec.layouts, inner, codec.structs[inner[0]]())
