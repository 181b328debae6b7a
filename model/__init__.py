"""A formal model of KRaft in TLA+, and the program that lets TLC check it.

``KRaft.tla`` is the protocol, ``Properties.tla`` what must hold, ``Faults.tla`` what an
implementation may do wrong; the first page of ``KRaft.tla`` says where to begin. ``groups.toml``
lists what is checked: groups of features, each with its scope, and faults, each with the property
that it breaks. ``run("elections")`` checks one with TLC, which Maven fetches once;
``story(result.trace)`` tells a counterexample in words. ``python -m kraftspec.model`` does both.

The model is written from the KIPs and from what Apache Kafka does. Nothing in it was taken from
``kraftspec.reference``, which it does not import.
"""

from kraftspec.model.groups import Group, groups
from kraftspec.model.tlc import Result, TlcError, run
from kraftspec.model.words import story

__all__ = ["Group", "Result", "TlcError", "groups", "run", "story"]
