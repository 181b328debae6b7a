"""The entry for editors that the documentation shows finds the specs and leads to their schema."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

from kraftspec.specs import specs_root

ROOT = Path(__file__).resolve().parents[2]


def matches(path: str, pattern: str) -> bool:
    """Whether a path has a pattern, of which ``**/`` is any number of directories."""
    parts = re.split(r"(\*\*/|\*)", pattern)
    regex = "".join({"**/": "(?:.*/)?", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(regex, path) is not None


def test_the_entry_finds_every_spec() -> None:
    page = (ROOT / "docs" / "schema-language.md").read_text("utf-8")
    entry = json.loads(re.findall(r"^```json\n(\{\n  \"name\".*?)^```", page, re.M | re.DOTALL)[-1])
    assert set(entry) == {"name", "description", "fileMatch", "url"}
    assert PurePosixPath(entry["url"]).name == "message.schema.json"
    assert (specs_root() / "message.schema.json").is_file()
    specs = list((ROOT / "specs").glob("k*/**/*.json"))
    assert len(specs) > 300
    for path in [*specs, ROOT / "my" / "schemas" / "Greeting.json"]:
        name = f"/{path.relative_to(ROOT).as_posix()}"
        assert any(matches(name, pattern) for pattern in entry["fileMatch"]), name
    assert not any(matches("/package.json", pattern) for pattern in entry["fileMatch"])
