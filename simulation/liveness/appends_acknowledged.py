"""What a state machine appends from now on is acknowledged."""

from __future__ import annotations

from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.schedule import Schedule

APPENDS = 3


class AppendsAcknowledged(Liveness):
    """Waits for three more appends of the run's clients to be acknowledged.

    The run's own clients go on appending.
    """

    def __init__(self) -> None:
        self.before = 0

    def begin(self, schedule: Schedule) -> None:
        """Count from here."""
        self.before = schedule.world.appends.acknowledged

    def is_so(self, schedule: Schedule) -> bool:
        """Whether some were acknowledged since."""
        return schedule.world.appends.acknowledged >= self.before + APPENDS

    def progress(self, schedule: Schedule) -> int:
        """Clients wait for who lags, and a log of thousands of batches takes its time."""
        return min(replica.log_model.end_offset for replica in schedule.world.running())


LIVENESS = AppendsAcknowledged
