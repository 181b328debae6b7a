"""Where docs/raft.md says that the rules of the Raft paper are, they are."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[3] / "docs" / "raft.md"
FUNCTION = re.compile(r"`(\w+)((?:\.\w+)+)`")
RULES = 17


def test_each_rule_is_where_the_page_says_and_names_its_document_there() -> None:
    _, _, rest = PAGE.read_text("utf-8").partition("## With the Raft paper beside it")
    rows = [line for line in rest.partition("## ")[0].splitlines() if line.startswith("| ")][2:]
    assert len(rows) == RULES
    for row in rows:
        _, places, documents = row.strip("| ").split(" | ")
        named = FUNCTION.findall(places)
        assert named, row
        kips = re.findall(r"KIP-\d+|KAFKA-\d+", documents)
        assert kips, row
        for module_name, path in named:
            module = import_module(f"kraftspec.reference.raft.{module_name}")
            docstrings = module.__doc__ or ""
            member: Any = module
            for name in path.split(".")[1:]:
                member = getattr(member, name)
                docstrings += member.__doc__ or ""
            assert any(kip in docstrings for kip in kips), f"{module_name}{path} names no {kips}"
