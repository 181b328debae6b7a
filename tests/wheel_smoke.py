"""Run by tox in an environment that holds the built wheel and its base install, nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import kraftspec
from kraftspec.fastpath import native
from kraftspec.generated.kafka import VoteRequest
from kraftspec.specs import specs_root

HEAVY = {"jinja2", "jsonschema", "rich", "click", "asyncio"}


def main(wanted: str) -> None:
    """Use the wheel as a stranger would; ``wanted`` is ``native`` or ``pure``."""
    assert kraftspec.__file__ is not None
    installed = Path(kraftspec.__file__).parent
    assert installed.parent.name == "site-packages", f"not the wheel: {installed}"
    sources = [path.stem for path in installed.glob("fastpath/_*.pyx")]
    assert sources, "the wheel lacks the sources of the compiled modules"
    loaded = {name: native.load(name) is not None for name in sources}
    assert set(loaded.values()) == {wanted == "native"}, f"{wanted} wanted: {loaded}"

    # Kafka's header fields and one partition, laid out by hand: VoteRequest v2.
    expected = bytes.fromhex(
        "00" "00000002" "02" "02" "74" "02"
        "00000000" "00000007" "00000001" + "00" * 32 + "00000003" "000000000000002a" "01"
        "00" "00" "00"
    )  # fmt: skip
    partition = VoteRequest.PartitionData(
        replica_id=1, replica_epoch=7, last_offset_epoch=3, last_offset=42, pre_vote=True
    )
    topic = VoteRequest.TopicData(topic_name="t", partitions=[partition])
    vote = VoteRequest(voter_id=2, topics=[topic])
    assert vote.encode(version=2) == expected
    assert VoteRequest.decode(expected, version=2) == vote
    assert not HEAVY & set(sys.modules), f"a codec loads {HEAVY & set(sys.modules)}"

    assert find_spec("jinja2") is None, "the base install brings the generator's libraries"
    assert (specs_root() / "message.schema.json").is_file()
    assert len(list((specs_root() / "kafka").rglob("*.json"))) == 286
    for room, pattern in {
        "codegen": "templates/*.jinja",
        "conformance": "schemas/*.json",
        "specs": "*/ERRATA.md",
    }.items():
        assert any((installed / room).glob(pattern)), f"the wheel lacks {room}/{pattern}"
    assert (installed / "py.typed").is_file()
    vectors = installed / "conformance" / "vectors"
    assert not list(vectors.glob("*/*.json")), "the vectors are a wheel of their own"

    command = [sys.executable, "-m", "kraftspec", "spec", "show", "VoteRequest", "--version", "2"]
    shown = subprocess.run(
        [*command, "--hex", expected.hex()], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "lastOffset" in shown.stdout
    print(f"kraftspec {kraftspec.__version__} works as a wheel: {native.describe()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
