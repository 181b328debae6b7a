"""What is explored: how many nodes, and how much may happen."""

from __future__ import annotations

import msgspec


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds, by the names that they have in the model, and the time-outs of the nodes.

    A time-out is a few units: only which of two ends first matters to a core, not by how much.
    """

    voters: int
    epochs: int
    in_flight: int = 1
    observers: int = 0
    crashes: int = 0
    changes: int = 0  # Of the voters, who are dynamic where there are any.
    appends: int = 0
    syncs_at_once: tuple[str, ...] = ("leader", "follower")  # Roles whose disk is done at once.
    election_timeout_us: int = 1
    fetch_timeout_us: int = 2
    request_timeout_us: int = 1
    retry_backoff_us: int = 1

    @property
    def about(self) -> str:
        """Say what is in it."""
        slow = {"leader", "follower"} - set(self.syncs_at_once)
        parts = [
            _counted(self.voters, "voter"),
            _counted(self.observers, "observer"),
            _counted(self.epochs, "epoch"),
            _counted(self.crashes, "crash", "crashes"),
            _counted(self.appends, "append"),
            _counted(self.changes, "change of the voters", "changes of the voters"),
            f"{_counted(self.in_flight, 'message')} in flight",
            *(f"a {role}'s syncs take their time" for role in sorted(slow)),
        ]
        return ", ".join(part for part in parts if part)

    @property
    def constants(self) -> dict[str, str]:
        """The constants that give the model the same bounds."""
        roles = ", ".join(f'"{role}"' for role in self.syncs_at_once)
        return {
            "Node": _nodes(self.voters + self.observers),
            "InitialVoters": _nodes(self.voters),
            "Dynamic": str(bool(self.changes)).upper(),
            "RemovedCampaigns": "TRUE",
            "PreVote": '"kafka"',
            "Begins": '"empty"',
            "SyncsAtOnce": f"{{{roles}}}",
            "MaxEpoch": str(self.epochs),
            "MaxInFlight": str(self.in_flight),
            "MaxCrashes": str(self.crashes),
            "MaxAppends": str(self.appends),
            "MaxChanges": str(self.changes),
        }


def _nodes(count: int) -> str:
    return f"{{{', '.join(f'n{at}' for at in range(count))}}}"


def _counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun; nothing where there are none."""
    return f"{number} {one if number == 1 else many or f'{one}s'}" if number else ""


# A voter that is no leader syncs what it was sent; a leader's disk takes its time.
_SLOW_LEADER = ("follower",)

SCOPES = {
    "election": Scope(voters=2, epochs=1),
    "second-election": Scope(voters=2, epochs=2),
    "record": Scope(voters=2, epochs=1, appends=1, syncs_at_once=_SLOW_LEADER),
    "crash": Scope(voters=2, epochs=2, crashes=1),
    "lost-record": Scope(voters=2, epochs=1, appends=1, crashes=1, syncs_at_once=_SLOW_LEADER),
    "overtaking": Scope(voters=2, epochs=1, crashes=1, in_flight=2),
    "addition": Scope(voters=1, observers=1, epochs=2, crashes=1, changes=1),
    "removal": Scope(voters=2, epochs=2, crashes=1, changes=1),
    "other-record": Scope(voters=2, epochs=2, appends=1, crashes=1, syncs_at_once=_SLOW_LEADER),
    "record-and-addition": Scope(
        voters=1, observers=1, epochs=2, appends=1, crashes=1, changes=1, syncs_at_once=_SLOW_LEADER
    ),
}
