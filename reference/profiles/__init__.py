"""The protocols that the reference node can speak, a package each.

``kafka`` is what Apache Kafka 4.4.0 speaks; the others are what three KIPs said before that. All
that the program has to know of a protocol is in its package:

* the package itself has ``PARTS``, a `parts.Parts`: its name, its generated messages, and what is
  in its logs. ``parts_of`` returns it, and its other parts are found by it;
* ``profile`` has ``PROFILE``, a `common.profile.ProfileBase`: it turns the core's messages into the
  bytes of one set of specs and back, by tables of `common.translation.Translation`, and decides by
  its policy what the documents behind those specs decide differently;
* ``node`` has ``NODE``, a `common.node.NodePart`: the configuration of a node, its metrics, what it
  owes a quorum, how its directory is formatted, and how a quorum of them is laid out on loopback;
* ``admin`` has ``ADMIN``, a `common.admin.AdminPart`: the admin client, and what tools show.

Other modules of a package are its own. A protocol has no more to it, but for its name in
``PROFILE_NAMES`` and in the command line's list, and a module of the package's name in
``kraftspec.simulation.protocols``: that is its side in the simulator, which nothing here may
import. No module elsewhere compares the name of a profile.

Called by what makes a core: the node, the tools, the simulator. A package may import `raft`, `wire`
and `log`, and no more, but for its modules ``node`` and ``admin``, which stand above the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kraftspec.reference.profiles.common.profile import ProfileBase
    from kraftspec.reference.profiles.parts import Parts

KAFKA: Final = "kafka"  # What is meant where no profile is named.
PROFILE_NAMES: Final = (KAFKA, "kip-595", "kip-853", "kip-996")


@cache
def parts_of(name: str) -> Parts:
    """Return what a profile is made of; LookupError for a name that is none."""
    if name not in PROFILE_NAMES:
        raise LookupError(f"there is no profile {name!r}; there are {', '.join(PROFILE_NAMES)}")
    parts: Parts = import_module(f"{__name__}.{name.replace('-', '_')}").PARTS
    return parts


def profile_named(
    name: str, *, without: Sequence[str] = (), release: str | None = None, **options: Any
) -> ProfileBase:
    """Return a profile.

    ``without`` names fixes that it is to do without: rules of ours, beside what a draft says, for
    a flaw that the draft has. ``release`` is an older one of Kafka's that it is to speak as.
    ``options`` are the profile's own. Raises LookupError for a name that is none, ValueError for a
    fix or a release that the profile does not have.
    """
    profile = parts_of(name).profile
    unknown = [fix for fix in without if fix not in profile.fixes]
    if unknown:
        known = ", ".join(profile.fixes) or "none"
        raise ValueError(f"{name} has no fix {unknown[0]!r}; it has {known}")
    if release is not None:
        if release not in profile.releases:
            known = ", ".join(profile.releases) or "none"
            raise ValueError(f"{name} speaks as no release {release!r} of Kafka; it knows {known}")
        options["release"] = release
    if without:
        options["without"] = tuple(without)
    return profile(**options)
