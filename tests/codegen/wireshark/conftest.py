"""What the tests of the dissector share."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftspec.codegen.wireshark_target import render_dissector
from kraftspec.specs import specs_root

from .sessions import messages


@pytest.fixture(scope="session")
def dissector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dissector of all messages."""
    path = tmp_path_factory.mktemp("dissector") / "kafka.lua"
    path.write_text(render_dissector(messages().values(), specs_root(), "specs/kafka"))
    return path
