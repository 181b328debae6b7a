"""The protocols that the reference node can speak, each a translator and a policy.

A profile turns the core's messages into the bytes of one set of specs and back, and decides what
the documents behind those specs decide differently. `kraftspec.reference.raft.profile.Profile` says
what it has to have. ``kafka`` is what Apache Kafka 4.3.1 speaks.
"""
