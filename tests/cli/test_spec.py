"""``kraftspec spec``: show, plan, diff and import, as a person types them."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kraftspec.cli import main
from kraftspec.specs import specs_root

# VoteRequest v2, laid out by hand: one topic "t" with one partition.
FIELDS = [
    ("00", "clusterId"),
    ("00000002", "voterId"),
    ("02", "topics"),
    ("0274", "topicName"),
    ("02", "partitions"),
    ("00000000", "partitionIndex"),
    ("00000007", "replicaEpoch"),
    ("00000001", "replicaId"),
    ("00" * 16, "replicaDirectoryId"),
    ("00" * 16, "voterDirectoryId"),
    ("00000003", "lastOffsetEpoch"),
    ("000000000000002a", "lastOffset"),
    ("01", "preVote"),
    ("00", "(tagged fields)"),
    ("00", "(tagged fields)"),
    ("00", "(tagged fields)"),
]
VOTE = "".join(digits for digits, _ in FIELDS)


def run(*arguments: str, stdin: str = "") -> Result:
    result = CliRunner().invoke(main, list(arguments), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def show(*arguments: str, stdin: str = "") -> Result:
    return run("spec", "show", "VoteRequest", "--version", "2", *arguments, stdin=stdin)


def test_show_prints_the_layout() -> None:
    result = show()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "VoteRequest v2 (request, API key 52, flexible, header v2)"
    assert [re.sub(r"^[│├└─ ]+", "", line).split("  ")[0] for line in lines[1:]] == [
        name for _, name in FIELDS
    ]
    assert lines[2].split()[1:] == ["voterId", "int32", "4", "bytes"]
    assert "\x1b" not in result.stdout


def test_show_holds_bytes_against_the_layout() -> None:
    result = show("--hex", VOTE)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[1:] if line[:8].strip()]
    at = 0
    for words, (digits, name) in zip(rows, FIELDS, strict=True):
        assert words[:2] == [str(at), digits]
        assert name.split()[0] in words
        at += len(digits) // 2
    assert f"{len(VOTE) // 2} bytes" in result.stdout


def test_show_reads_hex_as_people_paste_it() -> None:
    spaced = " ".join(VOTE[at : at + 2] for at in range(0, len(VOTE), 2))
    assert show("--hex", "-", stdin=f"0x{spaced}\n").stdout == show("--hex", VOTE).stdout


def test_show_says_where_bytes_go_wrong() -> None:
    result = show("--hex", VOTE[:-10])
    assert result.exit_code == 1
    last = result.stdout.splitlines()[-1]
    assert "topics[0].partitions[0].lastOffset" in last
    assert last.split()[0] == str(sum(len(digits) // 2 for digits, _ in FIELDS[:11]))
    assert "truncated" in last


def test_show_json_of_bytes() -> None:
    spans = json.loads(show("--hex", VOTE, "--json").stdout)["spans"]
    assert "".join(span["hex"] for span in spans) == VOTE
    assert spans[1] == {
        "path": "voterId", "wire": "int32", "start": 1, "end": 5, "hex": "00000002", "value": "2",
    }  # fmt: skip


def test_lenient_lets_trailing_bytes_pass() -> None:
    assert show("--hex", VOTE + "ff").exit_code == 1
    assert show("--hex", VOTE + "ff", "--lenient").exit_code == 0


def test_hex_that_is_not_hex_is_wrong_usage() -> None:
    result = show("--hex", "0g")
    assert result.exit_code == 2
    assert "not hex digits" in result.stderr


@pytest.mark.parametrize("command", ["show", "plan"])
def test_plan_as_json(command: str) -> None:
    plan = json.loads(run("spec", command, "VoteRequest", "--version", "0", "--json").stdout)
    assert (plan["message"], plan["version"], plan["apiKey"]) == ("VoteRequest", 0, 52)
    assert [field["name"] for field in plan["fields"]] == ["clusterId", "topics"]


def test_plan_as_a_tree() -> None:
    assert run("spec", "plan", "VoteRequest", "--version", "2").stdout == show().stdout


def test_the_newest_version_is_the_default() -> None:
    assert run("spec", "show", "VoteRequest").stdout == show().stdout
    assert run("spec", "plan", "VoteRequest").stdout == show().stdout


def test_a_removed_api_has_no_newest_version() -> None:
    result = run("spec", "show", "LeaderAndIsrRequest")
    assert result.exit_code == 2
    assert "LeaderAndIsrRequest has no version left" in result.stderr


def test_all_plans_of_a_message() -> None:
    plans = json.loads(run("spec", "plan", "VoteRequest", "--all", "--json").stdout)
    assert [(plan["message"], plan["version"]) for plan in plans] == [
        ("VoteRequest", version) for version in range(3)
    ]
    assert plans[2] == json.loads(show("--json").stdout)


def test_all_plans_of_a_set_are_every_pair_of_its_specs() -> None:
    plans = json.loads(run("spec", "plan", "--all", "--json", "--set", "kip-996").stdout)
    pairs = set()
    for path in (specs_root() / "kip-996").rglob("*.json"):
        text = re.sub(r"(?m)^\s*//.*$", "", path.read_text())
        spec = json.loads(text)
        first, _, last = spec["validVersions"].partition("-")
        pairs |= {(spec["name"], version) for version in range(int(first), int(last or first) + 1)}
    assert {(plan["message"], plan["version"]) for plan in plans} == pairs
    assert len(plans) == len(pairs)


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        ((), "name a message, or use --all"),
        (("VoteRequest", "--all", "--version", "1"), "leave --version out"),
    ],
)
def test_plan_of_nothing_is_wrong_usage(arguments: tuple[str, ...], mistake: str) -> None:
    result = run("spec", "plan", *arguments)
    assert result.exit_code == 2
    assert mistake in result.stderr


def test_list_names_the_messages() -> None:
    listed = json.loads(run("spec", "list", "raftvoterReq", "--json").stdout)
    assert listed == [
        {"message": name, "type": "request", "apiKey": key, "versions": versions, "flexible": "0+"}
        for name, key, versions in (
            ("AddRaftVoterRequest", 80, "0-1"),
            ("RemoveRaftVoterRequest", 81, "0"),
            ("UpdateRaftVoterRequest", 82, "0"),
        )
    ]
    lines = run("spec", "list", "LeaderAndIsrReq").stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["4", "LeaderAndIsrRequest", "request", "none", "none"]
    ]
    assert len(json.loads(run("spec", "list", "--json").stdout)) == len(
        list((specs_root() / "kafka").rglob("*.json"))
    )


def test_list_of_a_part_that_no_message_has() -> None:
    result = run("spec", "list", "VoteReqest")
    assert result.exit_code == 2
    assert "did you mean VoteRequest" in result.stderr


def test_a_spec_may_be_a_path(tmp_path: Path) -> None:
    copy = tmp_path / "VoteRequest.json"
    shutil.copy(specs_root() / "kafka/clients/VoteRequest.json", copy)
    assert run("spec", "show", str(copy), "--version", "2").stdout == show().stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["VoteReqest", "--version", "0"], 2, "did you mean VoteRequest"),
        (["Xyzzy", "--version", "0"], 2, "there is no message 'Xyzzy' in kafka\n"),
        (["VoteRequest", "--version", "0", "--set", "kafak"], 2, "there is no set 'kafak': kafka"),
        (["VoteRequest", "--version", "9"], 2, "VoteRequest has versions 0-2, not 9"),
        (["nowhere.json", "--version", "0"], 1, "nowhere.json:1:1: "),
    ],
)
def test_show_refuses(arguments: list[str], code: int, says: str) -> None:
    result = run("spec", "show", *arguments)
    assert result.exit_code == code
    assert says in result.stderr
    assert result.stdout == ""


def test_plan_of_a_version_that_there_is_not() -> None:
    result = run("spec", "plan", "VoteRequest", "--version", "9")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid value for --version: VoteRequest has versions 0-2, not 9" in result.stderr


def broken(directory: Path) -> Path:
    """Write a spec with two mistakes, on lines 4 and 6."""
    path = directory / "Greeting.json"
    path.write_text(
        "{\n"
        '  "type": "data",\n'
        '  "name": "Greeting",\n'
        '  "validVersions": "0+",\n'
        '  "flexibleVersions": "none",\n'
        '  "fields": [{ "name": "Words", "type": "[]int99", "versions": "0" }]\n'
        "}\n"
    )
    return path


def test_check_finds_every_mistake_at_its_place(tmp_path: Path) -> None:
    path = broken(tmp_path)
    result = run("spec", "check", str(path))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{path}:4:20", f"{path}:6:41"]
    assert ["[valid-versions-end]" in lines[0], "[type-known]" in lines[1]] == [True, True]
    assert result.stderr == "1 file, 2 mistakes\n"


def test_check_as_json(tmp_path: Path) -> None:
    result = run("spec", "check", str(broken(tmp_path)), "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["files"], report["ok"]) == (1, False)
    assert [diagnostic["line"] for diagnostic in report["diagnostics"]] == [4, 6]


def test_check_of_good_specs(tmp_path: Path) -> None:
    result = run("spec", "check", str(specs_root() / "kafka/raft"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "1 file, 0 mistakes\n"


def test_check_of_a_path_that_is_not_there(tmp_path: Path) -> None:
    result = run("spec", "check", str(tmp_path / "Absent.json"))
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path}/Absent.json:1:1: ")


def edited(directory: Path) -> Path:
    """Copy the raft module of our specs, with the type of a released field changed."""
    shutil.copytree(specs_root() / "kafka/raft", directory)
    path = directory / "QuorumStateData.json"
    spec = json.loads(path.read_text("utf-8"))
    [epoch] = (field for field in spec["fields"] if field["name"] == "LeaderEpoch")
    epoch["type"] = "int64"
    path.write_text(json.dumps(spec), "utf-8")
    return directory


def test_diff_of_equals() -> None:
    raft = str(specs_root() / "kafka/raft")
    result = run("spec", "diff", raft, raft)
    assert result.exit_code == 0
    assert "1 unchanged" in result.stdout


def test_diff_that_breaks(tmp_path: Path) -> None:
    new = edited(tmp_path / "raft")
    raft = str(specs_root() / "kafka/raft")
    result = run("spec", "diff", raft, str(new))
    assert result.exit_code == 1
    assert "leaderEpoch" in result.stdout
    report = json.loads(run("spec", "diff", raft, str(new), "--json").stdout)
    assert report["breaking"] is True
    assert report["counts"]["breaking"] == 1


def test_diff_of_nothing_is_wrong_usage(tmp_path: Path) -> None:
    result = run("spec", "diff", str(tmp_path / "absent"), str(tmp_path))
    assert result.exit_code == 2
    assert "absent" in result.stderr


def facts(value: dict[str, object]) -> dict[str, object]:
    return {key: entry for key, entry in value.items() if key != "about"}


def jar(directory: Path) -> Path:
    path = directory / "kafka-raft-4.3.1.jar"
    spec = specs_root() / "kafka/raft/QuorumStateData.json"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(spec, "common/message/QuorumStateData.json")
    return path


def test_import_writes_once(tmp_path: Path) -> None:
    command = ["spec", "import", str(jar(tmp_path)), "--out", str(tmp_path / "set")]
    first = run(*command)
    assert first.exit_code == 0
    assert first.stdout.splitlines() == [
        "added raft/QuorumStateData.json",
        "1 added, 0 changed, 0 unchanged, 0 removed",
    ]
    written = (tmp_path / "set/raft/QuorumStateData.json").read_text("utf-8")
    ours = (specs_root() / "kafka/raft/QuorumStateData.json").read_text("utf-8")
    assert '"about"' not in written  # Sentences of a jar are not taken, only facts.
    assert json.loads(written, object_hook=facts) == json.loads(ours, object_hook=facts)
    again = json.loads(run(*command, "--json").stdout)
    assert again["unchanged"] == ["raft/QuorumStateData.json"]


def test_import_leaves_what_the_jar_dropped(tmp_path: Path) -> None:
    left = tmp_path / "set/raft/OldData.json"
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    result = run("spec", "import", str(jar(tmp_path)), "--out", str(tmp_path / "set"))
    assert "removed raft/OldData.json" in result.stdout
    assert "the file was left" in result.stderr
    assert left.exists()


def test_import_refuses_what_is_no_jar(tmp_path: Path) -> None:
    path = tmp_path / "kafka-raft-4.3.1.jar"
    path.write_text("not a zip")
    result = run("spec", "import", str(path), "--out", str(tmp_path / "set"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert str(path) in result.stderr
    assert not (tmp_path / "set").exists()
