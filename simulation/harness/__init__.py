"""Implementations of KRaft that run in processes of their own, as nodes of the simulated quorum.

`protocol` is how the simulator speaks to such a process, `process` runs it, `replica` makes its
nodes replicas of a `simulation.world.World`, and `cores` knows which there are: each folder beside
these modules holds one. docs/node-harness.md says how to add another.

``kraftspec simulate --core`` is what calls this.
"""
