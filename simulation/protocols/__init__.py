"""What the simulator has to know of each protocol beside its messages, a protocol a module.

A module here has the name of a package of `kraftspec.reference.profiles`, for that package may not
import the simulator. `base.SimulatedProtocol` says what there is to decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.harness.cores import Core, RunCores
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


def check_cores(profile: Profile, cores: Sequence[Core]) -> None:
    """Raise ``ValueError`` where other implementations are to speak what only ours speaks."""
    others = [core.name for core in cores if not core.is_own]
    if others and not protocol_of(profile).has_other_cores:
        raise ValueError(f"{others[0]} does not speak the protocol {profile.name}")


__all__ = ["SimulatedProtocol", "check_cores", "protocol_of"]
