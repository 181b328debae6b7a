"""The recipes of docs/node-configuration.md and docs/node-security.md, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.reference.node.certificates import Authority
from tests.reference.node.quorum import run

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.tools.storage import FormatRequest, format_storage
from kraftspec.reference.tools.storage_config import load_storage_config

DOCS = Path(__file__).resolve().parents[2] / "docs"
CLUSTER_ID = "cmVjaXBlcy1vZi1kb2NzLQ"
WAIT_S = 180.0  # What takes seconds where nothing else runs.
BLOCK = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRAM = re.compile(r"--add-scram '([^']+)'")


def blocks(page: str) -> list[str]:
    return BLOCK.findall((DOCS / page).read_text("utf-8"))


(LEAST,) = blocks("node-configuration.md")
RECIPES = {"PLAINTEXT": "", **{text.split("\n")[0].rpartition(":")[2]: text
                               for text in blocks("node-security.md")}}  # fmt: skip


def test_there_is_a_recipe_for_each_protocol() -> None:
    assert RECIPES.keys() == {"PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"}


@pytest.mark.parametrize("protocol", RECIPES)
def test_a_recipe_makes_a_quorum_that_another_node_follows(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    authority = Authority()
    authority.write_pem(Path("authority.pem"))
    for name in ("node-1", "node-2"):
        authority.sign(name).write_pem(Path(f"{name}.pem"))
    taken: set[int] = set()
    own, other = free_port(taken), free_port(taken)
    first = Path("1.properties")
    first.write_text((LEAST + RECIPES[protocol]).replace("9093", str(own)))
    second = Path("2.properties")
    text = first.read_text().replace("node.id=1", "node.id=2").replace("data/1", "data/2")
    text = text.replace("location=node-1.pem", "location=node-2.pem")
    second.write_text(text.replace(f"listeners=CONTROLLER://{HOST}:{own}",
                                   f"listeners=CONTROLLER://{HOST}:{other}"))  # fmt: skip
    scram = tuple(SCRAM.findall((DOCS / "node-security.md").read_text("utf-8")))
    assert len(scram) == 1
    standalone = FormatRequest(cluster_id=CLUSTER_ID, standalone=True, scram=scram)
    format_storage(load_storage_config(first), standalone)
    observing = FormatRequest(cluster_id=CLUSTER_ID, no_initial_controllers=True)
    format_storage(load_storage_config(second), observing)

    async def main() -> None:
        config = load_config(first)
        assert config.warnings == ()
        assert config.security.is_on == (protocol != "PLAINTEXT")
        assert config.listeners[0].protocol == protocol
        async with Node(config) as leader, Node(load_config(second)) as follower:
            await leader.until(lambda it: it.core.high_watermark > 0, WAIT_S)
            end = leader.core.high_watermark
            await follower.until(lambda it: it.core.committed_offset >= end, WAIT_S)

    run(main())
