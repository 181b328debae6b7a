"""A reference node on a network: the core of ``raft`` under asyncio, as a member of a quorum.

`settings` are what a node is run with, and `config` reads them from Kafka's own controller
properties; `security` is TLS, SASL and who may call what.
"""
