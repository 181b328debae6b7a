"""The drawing and the table in the documentation are those of the code."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from kraftspec.reference.raft import TRANSITIONS
from kraftspec.reference.raft.diagram import (
    DRAWING,
    PAGE,
    drawing,
    edges,
    listing,
    main,
    numbers,
    with_listing,
)

DOCS = Path(__file__).resolve().parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_documentation_has_not_fallen_behind(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text((DOCS / PAGE).read_text("utf-8"), "utf-8")
    main(tmp_path)
    for name in (PAGE, DRAWING):
        assert (tmp_path / name).read_text("utf-8") == (DOCS / name).read_text("utf-8"), (
            "python -m kraftspec.reference.raft.diagram docs"
        )


def test_every_transition_is_drawn_and_listed() -> None:
    root = ElementTree.fromstring(drawing())
    labels = [text for text in root.iter(f"{SVG}text") if text.get("class") == "cause"]
    drawn = sum(len((label[0].tail or "").split(",")) for label in labels)
    transitions = [(role, cause) for role in TRANSITIONS for cause in TRANSITIONS[role]]
    assert drawn == len(transitions) == sum(len(causes) for _, _, causes in edges())
    assert listing().count("→") == len(transitions)
    assert set(numbers()) == {cause for _, cause in transitions}


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere to write to"):
        with_listing("# A page")
