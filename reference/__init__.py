"""The reference KRaft node: a core that decides, a log that lasts, and the protocols it speaks.

From the bottom up; each may import what stands before it:

* `wire`: what every connection has in common: frames, headers, versions, and the table of APIs.
* `raft`, the core: it takes events and returns effects, and never touches a clock, a socket, a disk
  or a random source itself, so that the same code runs in a real quorum and under a simulator
  where one seed owns everything. Roles are modules; the table of transitions is data.
* `log` keeps the log on a disk, in Kafka's own layout.
* `profiles` turn the core's messages into bytes and back: ``kafka`` is what Apache Kafka 4.4.0
  speaks, the others are drafts of three KIPs. `metadata` reads the records of the metadata log.
* `storage` carries out the core's effects on a log directory.
* `node` is the core under asyncio, with TLS, SASL, metrics and Kafka's configuration.
* `admin` is a client for controllers, `tools` work on the files of a node.
* `local` is a quorum of nodes on loopback.

Called by the command line, by `simulation`, `interop`, the pipeline and the making of node vectors.
It may import `generated`, `codegen`, `fastpath` and `specs`.
"""
