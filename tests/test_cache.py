"""Where what is built is kept, for all checkouts of a user."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kraftspec import cache


def test_where_builds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_directory() == tmp_path / "xdg" / "kraftspec"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.cache_directory() == tmp_path / ".cache" / "kraftspec"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.cache_directory() == tmp_path / "Library" / "Caches" / "kraftspec"
