"""The registry: what a manifest says, what is missing, and one build for all comers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kraftspec import __version__
from kraftspec.conformance.adapters import registry
from kraftspec.conformance.adapters.harness import Adapter, AdapterError
from kraftspec.conformance.adapters.registry import AdapterBuildError, AdapterSpec, adapters, find
from kraftspec.conformance.runner.known import known_file
from kraftspec.specs import kafka_release

# A real program with a real build: it copies what it was built from, so that a test can tell.
PROGRAM = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    print(json.dumps({
        "protocol": 1, "name": "toy", "language": "python", "version": sys.argv[1],
        "spec": "kafka/4.3.1", "messages": {}, "notes": open(sys.argv[2]).read(),
    }), flush=True)
"""
MANIFEST = """
name = "toy"
language = "python"
implements = "nothing"
version = "1.2"
homepage = "https://example.org"
needs = ["sh", "cp>=1"]
shares = ["common"]
pin = [["cp", "../common/other.txt", "../common/words.txt"]]
build = [
  ["sh", "-c", "echo built >> '{shared}'.log; sleep 0.2"],
  ["cp", "../common/words.txt", "{build}/words-{version}.txt"],
]
run = ["{python}", "{source}/toy.py", "{version}", "{build}/words-{version}.txt"]

[install]
sh = "get-sh"
cp = { apt-get = "apt-get install coreutils", dnf = "dnf install coreutils", brew = "brew it" }
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of adapters with one in it, whose builds are kept beside it."""
    monkeypatch.setattr(registry, "cache_directory", lambda: tmp_path / "cache")
    folders = tmp_path / "adapters"
    for folder, name, text in (
        ("toy-folder", "toy.py", PROGRAM),
        ("toy-folder", "adapter.toml", MANIFEST),
        ("common", "words.txt", "first words"),
        ("common", "other.txt", "other words"),
    ):
        (folders / folder).mkdir(parents=True, exist_ok=True)
        (folders / folder / name).write_text(text)
    return folders


def notes(adapter: Adapter) -> tuple[str, object]:
    with adapter:
        hello = adapter.hello()
        return hello.version, hello.notes


def builds(root: Path) -> int:
    log = root.parent / "cache" / "adapters" / "shared-python.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


# ------------------------------------------------------------------------------------- manifests


def test_those_of_this_package() -> None:
    known = {spec.name: spec for spec in adapters()}
    assert list(known) == sorted(known)
    assert {"kraftspec", "kraftspec-python", "kafka"} <= set(known)
    assert known["kraftspec"].version == __version__
    assert (known["kafka"].language, known["kafka"].version) == ("java", kafka_release())
    for spec in known.values():
        assert {need.partition(">=")[0] for need in spec.needs} == set(spec.install)
        assert spec.run[0]
        assert spec.homepage.startswith("https://") or spec.name.startswith("kraftspec")


def test_the_readme_counts_the_codecs() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    languages = {spec.language for spec in adapters()}
    assert f"{len(adapters())} codecs in {len(languages)} languages" in readme


def test_each_codec_of_others_has_known_failures_and_a_page() -> None:
    findings = Path(__file__).parents[3] / "docs" / "findings"
    index = (findings / "index.md").read_text("utf-8")
    for spec in adapters():
        if spec.homepage and spec.name != "kafka":
            title = (findings / f"{spec.name}.md").read_text("utf-8").partition("\n")[0]
            assert title.endswith(f" {spec.version}")
            assert f"({spec.name}.md)" in index
            assert known_file(spec.name).exists()


def test_each_word_of_a_manifest_is_known(root: Path) -> None:
    manifest = root / "toy-folder" / "adapter.toml"
    manifest.write_text(MANIFEST.replace("homepage", "homepag"))
    with pytest.raises(ValueError, match=r"toy-folder/adapter\.toml: .*homepag"):
        adapters(root)
    manifest.write_text(MANIFEST.replace('"sh", "cp>=1"', '"sh > 3"'))
    with pytest.raises(ValueError, match=r"adapter\.toml: needs 'sh > 3' is not TOOL or TOOL>=1"):
        find("toy", root).missing()


def test_an_unknown_name_is_told_the_known_ones(root: Path) -> None:
    with pytest.raises(ValueError, match="there is no adapter 'tay': toy"):
        find("tay@1.0", root)


def test_ours_has_no_other_release() -> None:
    assert find(f"kraftspec@{__version__}") == find("kraftspec")
    with pytest.raises(ValueError, match="kraftspec@: name a release after @"):
        find("kraftspec@")
    with pytest.raises(ValueError, match=r"kraftspec-python is .* and has no other releases"):
        find("kraftspec-python@9.9")


# ---------------------------------------------------------------------------------------- builds


def test_a_build_is_made_once_for_each_state_of_the_sources(root: Path) -> None:
    assert notes(find("toy", root).adapter()) == ("1.2", "first words")
    assert notes(find("toy", root).adapter()) == ("1.2", "first words")
    assert builds(root) == 1
    (root / "toy-folder" / "__pycache__").mkdir()
    (root / "toy-folder" / "__pycache__" / "toy.pyc").write_text("not a source")
    assert notes(find("toy", root).adapter())[1] == "first words"
    assert builds(root) == 1
    (root / "common" / "words.txt").write_text("new words")  # What it shares is a source, too.
    assert notes(find("toy", root).adapter())[1] == "new words"
    assert builds(root) == 2


def test_another_release_is_built_beside_the_first(root: Path) -> None:
    assert notes(find("toy@0.9", root).adapter()) == ("0.9", "other words")
    assert notes(find("toy", root).adapter()) == ("1.2", "first words")
    assert notes(find("toy@1.2", root).adapter()) == ("1.2", "first words")
    assert builds(root) == 2


def test_a_build_that_is_no_longer_of_use_is_deleted(root: Path) -> None:
    words = root / "common" / "words.txt"
    done = []
    for text in ("first words", "second words"):
        words.write_text(text)
        done.append(Path(find("toy", root).command()[-1]).parent / "done")
    for path in done:
        os.utime(path, (0, 0))  # Nobody used them for long.
    find("toy", root).command()
    words.write_text("third words")
    find("toy", root).command()
    assert [path.exists() for path in done] == [False, True]
    assert builds(root) == 3


def test_several_processes_build_at_once(root: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from kraftspec.conformance.adapters import registry\n"
        "registry.cache_directory = lambda: Path(sys.argv[1])\n"
        "print(registry.find('toy', Path(sys.argv[2])).command())"
    )
    command = [sys.executable, "-c", script, str(root.parent / "cache"), str(root)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {worker.communicate(timeout=60)[0] for worker in workers}
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert len(printed) == 1
    assert builds(root) == 1


def test_a_failed_build_shows_the_end_of_its_output_and_is_tried_again(root: Path) -> None:
    manifest = root / "toy-folder" / "adapter.toml"
    failing = MANIFEST.replace("sleep 0.2", "seq 1 99; echo the last words >&2; exit 1")
    manifest.write_text(failing)
    for attempt in (1, 2):
        with pytest.raises(AdapterBuildError, match=r"the adapter toy did not build: sh") as caught:
            find("toy", root).adapter()
        assert builds(root) == attempt
    assert isinstance(
        caught.value, AdapterError
    )  # To a runner it is an adapter that fails to start.
    assert caught.value.kind == "start"
    lines = str(caught.value).splitlines()
    assert lines[-2:] == ["99", "the last words"]
    assert "\n60\n" not in str(caught.value)


def test_a_failed_build_of_a_release_that_is_not_tested_names_those_that_are(root: Path) -> None:
    manifest = root / "toy-folder" / "adapter.toml"
    failing = MANIFEST.replace("sleep 0.2", r"printf '\\033[0mnone\\033[0m\\n'; exit 1")
    manifest.write_text(failing.replace("needs =", 'releases = ["1.1", "1.2"]\nneeds ='))
    with pytest.raises(AdapterBuildError, match=r"tested \(1\.1, 1\.2\): the adapter") as caught:
        find("toy@9.9", root).command()
    assert str(caught.value).startswith("9.9 is not a release")
    assert str(caught.value).splitlines()[-1] == "none"
    with pytest.raises(AdapterBuildError, match=r"^the adapter toy did not build"):
        find("toy@1.1", root).command()


def test_a_build_that_hangs_is_ended(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = root / "toy-folder" / "adapter.toml"
    manifest.write_text(MANIFEST.replace("sleep 0.2", "exec sleep 600"))
    monkeypatch.setattr(registry, "BUILD_TIMEOUT_S", 0.05)
    with pytest.raises(AdapterBuildError, match=r"not finished after 0\.05 s; is its registry"):
        find("toy", root).command()


def test_the_projects_lock_does_not_reach_a_build(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONSTRAINT", "constraints.txt")
    manifest = root / "toy-folder" / "adapter.toml"
    manifest.write_text(MANIFEST.replace("sleep 0.2", "exit ${PIP_CONSTRAINT+1}"))
    assert notes(find("toy", root).adapter())[1] == "first words"


# --------------------------------------------------------------------------------------- missing


def tool(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_program_that_went_after_the_build_is_named(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = root / "toy-folder" / "adapter.toml"
    manifest.write_text(MANIFEST.replace('run = ["{python}"', 'run = ["sh"'))
    spec = find("toy", root)
    spec.command()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AdapterBuildError, match="toy cannot be run: sh was not found; install"):
        spec.command()


def test_what_is_missing_is_named_with_the_command_that_installs_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find("toy", root)
    assert spec.missing() == []
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setattr(sys, "platform", "linux")
    assert spec.missing() == [
        "sh was not found; install it with: get-sh",
        "cp was not found; install it with: apt-get install coreutils",
    ]
    with pytest.raises(AdapterBuildError, match="toy cannot be built: sh was not found; install"):
        spec.command()
    tool(tools, "sh", "exit 1")  # Nobody asks for its version.
    for output, expected in (
        ('echo "cp (GNU) 0.9.1"', "cp is 0.9.1, and 1 or newer is needed; install it with: apt"),
        ("exit 1", "cp does not tell its version, and 1 or newer is needed; install"),
    ):
        tool(tools, "cp", output)
        (missing,) = spec.missing()
        assert missing.startswith(expected)
    tool(tools, "dnf", "exit 0")
    assert spec.missing()[0].endswith("dnf install coreutils")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert spec.missing()[0].endswith("brew it")
    tool(tools, "cp", 'echo "cp 1.0-ea" >&2')
    assert spec.missing() == []


@pytest.mark.parametrize(
    ("name", "output", "lacks"),
    [
        ("java", 'openjdk version "17.0.2" 2022-01-18', False),
        ("java", 'java version "1.8.0_392"', True),
        ("javac", "javac 11.0.2", True),
        ("javac", "javac 21-ea", False),
    ],
)
def test_versions_of_java(
    name: str, output: str, lacks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, name, f"test \"$1\" = -version && echo '{output}' >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    need = f"{name}>=17"
    spec = AdapterSpec(name="n", language="l", implements="i", run=("r",), needs=(need,))
    assert bool(spec.missing()) == lacks
