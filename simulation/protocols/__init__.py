"""What the simulator has to know of each protocol beside its messages, a protocol a module.

A module here has the name of a package of `kraftspec.reference.profiles`, for that package may not
import the simulator. `base.SimulatedProtocol` says what there is to decide.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.harness.cores import RunCores
from kraftspec.simulation.protocols.base import SimulatedProtocol


def protocol_of(profile: Profile, cores: RunCores | None = None) -> SimulatedProtocol:
    """Return the simulator's side of a profile; LookupError if it has none.

    ``cores`` says which nodes are of other implementations.
    """
    module = f"{__name__}.{profile.name.replace('-', '_')}"
    if find_spec(module) is None:
        raise LookupError(f"the simulator knows no profile {profile.name!r}: {module} is missing")
    protocol: SimulatedProtocol = import_module(module).PROTOCOL(profile)
    protocol.cores = cores
    return protocol


__all__ = ["SimulatedProtocol", "protocol_of"]
