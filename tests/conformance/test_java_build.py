"""Building the Java adapter: once for all comers, and with words for what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kraftspec.conformance import java
from kraftspec.conformance.java import JavaError

pytestmark = pytest.mark.java


def test_several_processes_build_at_once(tmp_path: Path) -> None:
    """The first comer builds; the others wait, and get the same command."""
    script = (
        "import sys; from pathlib import Path; from kraftspec.conformance import java\n"
        "java._cache_directory = lambda: Path(sys.argv[1])\n"
        "print(java.adapter_command())"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = [worker.communicate(timeout=300)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert len(set(printed)) == 1
    assert str(tmp_path) in printed[0]
    assert len(list(tmp_path.glob("build-*"))) == 1


def test_a_failed_build_shows_mavens_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pom = tmp_path / "pom.xml"
    pom.write_text("<project>")
    with pytest.raises(JavaError, match=r"Non-readable POM|Non-parseable POM"):
        java._build(pom, tmp_path / "build", tmp_path / "jars")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match=r"not found: java, javac, mvn; .*install"):
        java._build(pom, tmp_path / "build", tmp_path / "jars")


def tool(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_what_is_missing_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert java.java_missing() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    tool(tmp_path, "java", "exit 0")
    missing = java.java_missing()
    assert missing is not None
    assert "javac, mvn" in missing
    assert "apt-get install openjdk-17-jdk-headless maven" in missing
    for name, script, said in (
        ("javac", 'echo "javac 11.0.2"', "found javac 11, but 17 or newer is needed"),
        ("javac", 'echo "javac 1.8.0_392" >&2', "found javac 1,"),
        ("javac", "exit 1", "does not tell its version"),
    ):
        tool(tmp_path, name, script)
        tool(tmp_path, "mvn", "exit 0")
        assert said in str(java.java_missing())
    tool(tmp_path, "javac", 'echo "javac 21-ea"')
    assert java.java_missing() is None
    tool(tmp_path, "javac", 'echo "javac 11"')
    tool(tmp_path, "dnf", "exit 0")
    assert "dnf install java-17-openjdk-devel maven" in str(java.java_missing())
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "brew install openjdk@17 maven" in str(java.java_missing())


def test_a_build_that_hangs_says_how_to_see_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "mvn", "exec sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(java, "BUILD_TIMEOUT_S", 0.2)
    with pytest.raises(JavaError, match=r"did not finish within 0\.2 s.*Try: mvn "):
        java._build(tmp_path / "pom.xml", tmp_path / "build", tmp_path / "jars")


def test_where_the_build_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = Path(java.__file__).resolve().parents[1]
    assert java._cache_directory() == checkout / ".cache" / "java"
    # As installed: the room is a directory of the package, with no project around it.
    installed = tmp_path / "kraftspec" / "conformance"
    installed.mkdir(parents=True)
    monkeypatch.setattr(java, "files", lambda _: installed)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert java._cache_directory() == tmp_path / "xdg" / "kraftspec" / "java"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert java._cache_directory() == tmp_path / ".cache" / "kraftspec" / "java"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert java._cache_directory() == tmp_path / "Library" / "Caches" / "kraftspec" / "java"
