"""``kraftspec generate``: for the checkout and for anyone's own schemas."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import watchfiles
from click.testing import CliRunner, Result

from kraftspec.cli import main
from kraftspec.specs import specs_root

SPEC = {
    "type": "data",
    "name": "Greeting",
    "validVersions": "0",
    "flexibleVersions": "none",
    "fields": [{"name": "Words", "type": "[]string", "versions": "0"}],
}


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["generate", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A directory with one schema of somebody's own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/Greeting.json").write_text(json.dumps(SPEC))
    return tmp_path


def arguments_of(own: Path) -> list[str]:
    return ["--specs", f"{own}/mine", "--out", f"{own}/my_codecs", "--package", "my_codecs"]


def test_own_schemas_become_a_package(own: Path) -> None:
    result = run(*arguments_of(own))
    assert result.exit_code == 0
    assert "wrote my_codecs/greeting.py" in result.stdout
    used = subprocess.run(
        [
            sys.executable,
            "-c",
            "from my_codecs import Greeting; print(Greeting(words=('a',)).encode(0).hex())",
        ],
        cwd=own,
        capture_output=True,
        text=True,
        check=True,
    )
    assert used.stdout == "00000001000161\n"


@pytest.mark.parametrize("name", ["my_codecs", "a.b.my_codecs"])
def test_the_package_goes_below_a_directory_of_another_name(own: Path, name: str) -> None:
    result = run("--specs", f"{own}/mine", "--out", f"{own}/src", "--package", name)
    assert result.exit_code == 0
    code = f"from {name} import Greeting; print(Greeting(words=('a',)).encode(0).hex())"
    command = [sys.executable, "-c", code]
    used = subprocess.run(command, cwd=own / "src", capture_output=True, text=True, check=True)
    assert used.stdout == "00000001000161\n"


def test_check_finds_drift(own: Path) -> None:
    run(*arguments_of(own))
    assert run(*arguments_of(own), "--check").exit_code == 0
    module = own / "my_codecs/greeting.py"
    module.write_text(module.read_text() + "# edited\n")
    result = run(*arguments_of(own), "--check")
    assert result.exit_code == 1
    assert "stale my_codecs/greeting.py" in result.stdout
    assert "the same without --check" in result.stderr
    assert "# edited" in module.read_text()
    assert json.loads(run(*arguments_of(own), "--json").stdout)["written"] == [
        "my_codecs/greeting.py"
    ]
    assert "# edited" not in module.read_text()


def test_a_spec_with_mistakes_is_shown_where_it_stands(own: Path) -> None:
    (own / "mine/Greeting.json").write_text(json.dumps(SPEC | {"validVersions": "0+"}, indent=1))
    result = run(*arguments_of(own))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{own}/mine/Greeting.json:4:")
    assert not (own / "my_codecs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--specs", "mine"], "--specs DIR and --out DIR go together"),
        (["--specs", "mine", "--out", "x", "--set", "kafka"], "not with --specs"),
        (["--specs", "absent", "--out", "x"], "there is no directory absent"),
        (["--specs", "mine", "--out", "x", "--package", "a-b"], "'a-b' is not a name to import"),
        (["--check", "--watch"], "nothing to --watch"),
        ([], "run this at the top of a checkout"),
    ],
)
def test_wrong_usage(
    own: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(own)
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the checkout's specs, with only the smallest set to generate."""
    (tmp_path / "specs").mkdir()
    for name in ("message.schema.json", "errors.json"):
        shutil.copy(specs_root() / name, tmp_path / "specs")
    shutil.copytree(specs_root() / "kafka/raft", tmp_path / "specs/kafka/raft")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_checkout_is_generated_whole(checkout: Path) -> None:
    result = run()
    assert result.exit_code == 0
    assert (checkout / "generated/kafka/quorum_state_data.py").is_file()
    assert (checkout / "generated/errors.py").is_file()
    assert run("--check").exit_code == 0
    assert run("--set", "kafka", "--check").exit_code == 0


def test_an_unknown_set_is_wrong_usage(checkout: Path) -> None:
    result = run("--set", "kafak")
    assert result.exit_code == 2
    assert "there is no set 'kafak'" in result.stderr


def test_watch_goes_on_after_a_mistake(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = own / "mine/Greeting.json"

    def changes(*_: object, **__: object) -> Iterator[set[tuple[watchfiles.Change, str]]]:
        spec.write_text("{")
        yield {(watchfiles.Change.modified, str(spec))}
        spec.write_text(json.dumps(SPEC | {"validVersions": "0-1"}))
        yield {(watchfiles.Change.modified, str(spec))}

    monkeypatch.setattr(watchfiles, "watch", changes)
    result = run(*arguments_of(own), "--watch")
    assert result.exit_code == 0
    assert "Greeting.json:1:" in result.stderr
    assert result.stdout.splitlines()[-1].startswith("1 message, 2 pairs: ")
