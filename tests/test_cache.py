"""Where what is built is kept, in a checkout and as installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kraftspec import cache


def test_where_builds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = Path(__file__).resolve().parents[1]
    assert cache.cache_directory() == checkout / ".cache"
    # As installed: the specs are a directory of the package, with no project around it.
    monkeypatch.setattr(cache, "specs_root", lambda: tmp_path / "kraftspec" / "specs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_directory() == tmp_path / "xdg" / "kraftspec"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.cache_directory() == tmp_path / ".cache" / "kraftspec"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.cache_directory() == tmp_path / "Library" / "Caches" / "kraftspec"
