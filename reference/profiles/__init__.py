"""The protocols that the reference node can speak, each a translator and a policy.

A profile turns the core's messages into the bytes of one set of specs and back, and decides what
the documents behind those specs decide differently. `kraftspec.reference.raft.profile.Profile` says
what it has to have. ``kafka`` is what Apache Kafka 4.3.1 speaks; the others what three KIPs said
before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile

# Name → module and class; a profile is imported when it is asked for.
_PROFILES = {
    "kafka": ("kraftspec.reference.profiles.kafka", "KafkaProfile"),
    "kip-595": ("kraftspec.reference.profiles.kip_595", "KipProfile"),
    "kip-853": ("kraftspec.reference.profiles.kip_853", "KipProfile"),
    "kip-996": ("kraftspec.reference.profiles.kip_996", "Kip996Profile"),
}
PROFILE_NAMES = tuple(_PROFILES)


def profile_named(name: str, *, without: Sequence[str] = (), **options: Any) -> Profile:
    """Return a profile.

    ``without`` names cures that it is to do without: rules of ours, beside what a draft says, for
    a flaw that the draft has. ``options`` are the profile's own. Raises LookupError for a name that
    is none, ValueError for a cure that the profile does not have.
    """
    try:
        module, kind = _PROFILES[name]
    except KeyError:
        raise LookupError(
            f"there is no profile {name!r}; there are {', '.join(_PROFILES)}"
        ) from None
    profile_class = getattr(import_module(module), kind)
    unknown = [cure for cure in without if cure not in profile_class.cures]
    if unknown:
        known = ", ".join(profile_class.cures) or "none"
        raise ValueError(f"{name} has no cure {unknown[0]!r}; it has {known}")
    if without:
        options["without"] = tuple(without)
    profile: Profile = profile_class(**options)
    return profile
