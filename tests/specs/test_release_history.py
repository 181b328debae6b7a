"""The history against the jars that it was made from, read here by other means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.specs.test_import import facts, upstream

from kraftspec.codegen.history import __main__ as program
from kraftspec.codegen.history.states import (
    history_of,
    history_text,
    packaged_history,
    spec_of,
)
from kraftspec.codegen.releases import HISTORY, jar_names, published_releases

from .conftest import KafkaJar

pytestmark = [pytest.mark.kafka, pytest.mark.soak]


@pytest.mark.parametrize("release", ["2.8.0", "3.3.0", "3.9.1", "4.0.0", "4.4.0"])
def test_a_release_is_what_its_jars_have(release: str, kafka_jar: KafkaJar) -> None:
    theirs: dict[str, tuple[str, Any]] = {}
    for artifact in jar_names(release):
        module = artifact.removeprefix("kafka-").replace("kafka_2.13", "core")
        for name, spec in upstream(kafka_jar(artifact, release)).items():
            theirs[name] = (module, facts(spec))
    ours = {}
    for name, state in packaged_history().state(release).items():
        module, spec = spec_of(state)
        ours[name] = (module, facts(spec))
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        assert ours[name] == expected, name


def test_the_command_adds_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bug-fix release of an older line and the newest, the file comes out the same."""
    known = dict(packaged_history().states())
    without = {release: known[release] for release in known if release not in ("4.0.1", "4.4.0")}
    history, page = tmp_path / "history.json", tmp_path / "releases.md"
    history.write_text(history_text(history_of(without)), "utf-8")
    page.write_text("# Releases\n\n" + "".join(program.MARKS) + "\n", "utf-8")
    monkeypatch.setattr(program, "published_releases", lambda: list(known))
    assert program.update(scratch=False, history=history, page=page) == ["4.0.1", "4.4.0"]
    assert history.read_text("utf-8") == HISTORY.read_text("utf-8")
    assert "| 4.4.0 | 286 | 91 | 744 | 12 |" in page.read_text("utf-8")


def test_from_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history, page = tmp_path / "history.json", tmp_path / "releases.md"
    page.write_text("".join(program.MARKS), "utf-8")
    few = ["3.9.1", "4.0.0", "4.0.1"]
    monkeypatch.setattr(program, "published_releases", lambda: few)
    assert program.update(scratch=True, history=history, page=page) == few
    known = dict(packaged_history().states())
    history_again = history_of({release: known[release] for release in few})
    assert history.read_text("utf-8") == history_text(history_again)


def test_maven_has_every_release_of_the_history() -> None:
    published = published_releases()
    assert set(packaged_history().releases) <= set(published)
    assert "2.7.2" not in published
