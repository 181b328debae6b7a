"""``kraftspec quorum up --without``: which fixes the nodes that it makes do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.conformance.cluster.node import free_port
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles import PROFILE_NAMES, parts_of

FIXES = {name: sorted(parts_of(name).profile.fixes) for name in PROFILE_NAMES}


@pytest.mark.parametrize(
    ("profile", "without"),
    [
        pytest.param(name, fixes, id=f"{name}-{len(fixes)}-{fixes[-1]}")
        for name, all_fixes in FIXES.items()
        if all_fixes
        for fixes in (*([fix] for fix in all_fixes), all_fixes)
    ],
)
def test_each_node_does_without_these_fixes_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, without: list[str]
) -> None:
    """The nodes are made, and then none of them starts."""
    started: dict[int, tuple[Any, ...]] = {}

    async def start(node: Node) -> None:
        own = node.profile
        policy: Any = own.policy
        started[node.config.node_id] = own.name, sorted(own.without), sorted(policy.without)
        raise OSError("it is not to start")

    monkeypatch.setattr(Node, "start", start)
    command = ["quorum", "up", "--profile", profile, "--nodes", "2", "--observers", "1"]
    if profile == "kip-996":
        command = command[:-2]  # Its voters are static.
    options = ["--directory", str(tmp_path), "--port", str(free_port(set()))]
    fixes = [word for fix in without for word in ("--without", fix)]
    done = CliRunner().invoke(main, [*command, *options, *fixes])
    assert (done.exit_code, "it is not to start" in done.stderr) == (1, True), done.output
    assert len(started) == (2 if profile == "kip-996" else 3)
    assert all(it == (profile, without, without) for it in started.values())
