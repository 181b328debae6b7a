"""What is recorded: states of a controller, and what it is asked in them."""

from kraftspec.conformance.making.exchanges.scenarios.bases import BASES
from kraftspec.conformance.making.exchanges.scenarios.case import Case
from kraftspec.conformance.making.exchanges.scenarios.denied import DENIED
from kraftspec.conformance.making.exchanges.scenarios.elections import ELECTIONS
from kraftspec.conformance.making.exchanges.scenarios.features import FEATURES
from kraftspec.conformance.making.exchanges.scenarios.membership import MEMBERSHIP
from kraftspec.conformance.making.exchanges.scenarios.replication import REPLICATION
from kraftspec.conformance.making.exchanges.scenarios.wire import WIRE

CASES: tuple[Case, ...] = (*WIRE, *ELECTIONS, *REPLICATION, *MEMBERSHIP, *FEATURES, *DENIED)

__all__ = ["BASES", "CASES", "Case"]
