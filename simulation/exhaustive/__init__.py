"""All that a few real nodes can come to within small bounds, held against the TLA+ model.

The simulator samples; here every event is tried in every state, with the core of this project. What
a node is can be put aside and taken up again (`node`), and two states are the same where nothing
that a core does later depends on what they differ in (`shape`). `search` goes through all of them,
breadth first. `observed` tells each state in the words of the model, and asks TLC for all states of
the model within the same bounds: what real nodes come to has to be among them.
"""

from kraftspec.simulation.exhaustive.observed import Compared, compare
from kraftspec.simulation.exhaustive.scopes import SCOPES, Scope
from kraftspec.simulation.exhaustive.search import Explorer

__all__ = ["SCOPES", "Compared", "Explorer", "Scope", "compare"]
