"""The description of the codec that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftspec.fastpath import native

PACKAGE = Path(native.__file__).parent


def test_every_compiled_module_is_listed() -> None:
    assert tuple(sorted(path.stem for path in PACKAGE.glob("_*.pyx"))) == native.COMPILED


@pytest.mark.skipif(native.load("_engine") is None, reason="says so only where there is an engine")
def test_a_part_that_was_not_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.describe() == "native"
    monkeypatch.setattr(native, "COMPILED", (*native.COMPILED, "_absent"))
    assert native.describe() == "native, but _absent not built: reinstall"
