"""The reference KRaft node: a core that decides, a log that lasts, and the protocols it speaks.

`raft` is the core: it takes events and returns effects, and never touches a clock, a socket, a disk
or a random source itself, so that the same code runs against a real quorum and under a simulator
where one seed owns everything. Roles are modules; the table of transitions is data. `profiles` turn
its messages into bytes and back: ``kafka`` is what Apache Kafka 4.3.1 speaks. `log` keeps the log
on a disk, in Kafka's own layout. To come: the node on a network, and the drafts' profiles.
"""
