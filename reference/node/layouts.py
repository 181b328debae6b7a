"""How the nodes of a quorum on loopback are laid out: properties and format, by profile.

An operator would make the same files. The drafts' nodes are formatted as their documents say: those
of KIP-595 without a cluster id; of KIP-853 one that is the first voter, to which the others are
added later; and of KIP-996 with voters that never change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log.properties import parse_properties, render_properties
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.config_drafts import KIP_595, KIP_853, KIP_996
from kraftspec.reference.node.kinds import KINDS
from kraftspec.reference.tools.storage import FormatRequest, format_storage
from kraftspec.reference.tools.storage_config import load_storage_config
from kraftspec.reference.tools.storage_drafts import DraftFormat, format_draft

LISTENER: Final = "CONTROLLER"
LISTENER_595: Final = "PLAINTEXT"
PROPERTIES_NAME: Final = "node.properties"
LOG_NAME: Final = "log"

# KIP-595's own, which are for a network, have a quorum without a leader for 15 s or more.
QUICK_595: Final = {
    "quorum.election.timeout.ms": "1000",
    "quorum.election.backoff.max.ms": "1000",
    "quorum.fetch.timeout.ms": "2000",
    "quorum.request.timeout.ms": "2000",
    "quorum.retry.backoff.ms": "20",
    "quorum.retry.backoff.max.ms": "500",
}


class Place(NamedTuple):
    """Where one node is to be: its id, ``host:port``, its directory, and whether it is a voter."""

    node_id: int
    address: str
    home: Path
    is_voter: bool


def lay_out(profile: str, places: Sequence[Place], settings: Mapping[str, str]) -> list[Path]:
    """Write the properties of nodes, and format them; return the files.

    ``settings`` are properties beside those that make a node one of this quorum.
    """
    return _LAYOUTS[profile](places, settings)


def bootstrap_of(profile: str, path: Path) -> str:
    """Return the addresses that a node's file begins with: ``host:port,…``."""
    text = parse_properties(path.read_text("latin-1"))[KINDS[profile].servers]
    return ",".join(word.rpartition("@")[2] for word in text.split(","))


def _write(place: Place, own: Mapping[str, str], settings: Mapping[str, str]) -> Path:
    place.home.mkdir(parents=True, exist_ok=True)
    path = place.home / PROPERTIES_NAME
    log_dirs = {"log.dirs": str(place.home.resolve() / LOG_NAME)}
    path.write_text(render_properties({**own, **log_dirs, **settings}), "latin-1")
    return path


def _controller(place: Place) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "node.id": str(place.node_id),
        "controller.listener.names": LISTENER,
        "listeners": f"{LISTENER}://{place.address}",
        "advertised.listeners": f"{LISTENER}://{place.address}",
    }


def _addresses(places: Sequence[Place]) -> str:
    return ",".join(place.address for place in places if place.is_voter)


def _kafka(places: Sequence[Place], settings: Mapping[str, str]) -> list[Path]:
    members = ",".join(
        f"{place.node_id}@{place.address}:{Uuid.random()}" for place in places if place.is_voter
    )
    cluster_id = str(Uuid.random())
    servers = {KINDS["kafka"].servers: _addresses(places)}
    paths = []
    for place in places:
        path = _write(place, _controller(place) | servers, settings)
        request = FormatRequest(
            cluster_id=cluster_id,
            no_initial_controllers=not place.is_voter,
            initial_controllers=members if place.is_voter else None,
        )
        format_storage(load_storage_config(path), request)
        paths.append(path)
    return paths


def _kip_595(places: Sequence[Place], settings: Mapping[str, str]) -> list[Path]:
    common = {
        "quorum.voters": ",".join(str(place.node_id) for place in places if place.is_voter),
        KINDS[KIP_595].servers: _addresses(places),
        **QUICK_595,
    }
    paths = []
    for place in places:
        own = {
            "broker.id": str(place.node_id),
            "listeners": f"{LISTENER_595}://{place.address}",
            "advertised.listeners": f"{LISTENER_595}://{place.address}",
        }
        paths.append(_write(place, own | common, settings))
        format_draft(load_config(paths[-1], KIP_595), DraftFormat(profile=KIP_595))
    return paths


def _kip_853(places: Sequence[Place], settings: Mapping[str, str]) -> list[Path]:
    cluster_id = str(Uuid.random())
    servers = {KINDS[KIP_853].servers: _addresses(places)}
    paths = []
    for place in places:
        paths.append(_write(place, _controller(place) | servers, settings))
        is_first = place is places[0]
        request = DraftFormat(
            profile=KIP_853,
            cluster_id=cluster_id,
            standalone=is_first,
            no_initial_controllers=not is_first,
        )
        format_draft(load_config(paths[-1], KIP_853), request)
    return paths


def _kip_996(places: Sequence[Place], settings: Mapping[str, str]) -> list[Path]:
    if not all(place.is_voter for place in places):
        raise ValueError(f"{KIP_996} has no observers: its voters are static, and a node is one")
    cluster_id = str(Uuid.random())
    voters = {
        KINDS[KIP_996].servers: ",".join(f"{place.node_id}@{place.address}" for place in places)
    }
    paths = []
    for place in places:
        paths.append(_write(place, _controller(place) | voters, settings))
        request = DraftFormat(profile=KIP_996, cluster_id=cluster_id)
        format_draft(load_config(paths[-1], KIP_996), request)
    return paths


_LAYOUTS: Final[dict[str, Callable[[Sequence[Place], Mapping[str, str]], list[Path]]]] = {
    "kafka": _kafka,
    KIP_595: _kip_595,
    KIP_853: _kip_853,
    KIP_996: _kip_996,
}
