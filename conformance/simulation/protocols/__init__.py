"""What the simulator has to know of each protocol beside its messages, a protocol a module.

A module here is found by the name of its profile; `base.SimulatedProtocol` says what there is to
decide.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.protocols.base import SimulatedProtocol

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile

# Profile → the module of this package that has its ``PROTOCOL``.
_MODULES = {
    "kafka": "kafka",
    "kip-595": "kip_595",
    "kip-853": "kip_853",
    "kip-996": "kip_996",
}


def protocol_of(profile: Profile) -> SimulatedProtocol:
    """Return the simulator's side of a profile; LookupError if it has none."""
    try:
        module = _MODULES[profile.name]
    except KeyError:
        raise LookupError(
            f"the simulator knows no profile {profile.name!r}; it knows {', '.join(_MODULES)}"
        ) from None
    protocol: SimulatedProtocol = import_module(f"{__name__}.{module}").PROTOCOL(profile)
    return protocol


__all__ = ["SimulatedProtocol", "protocol_of"]
