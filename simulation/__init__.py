"""A quorum, its network, its disks and its clocks in one process, owned by one seed.

Nodes are the reference core and the reference log as they are; between them cross encoded bytes. A
run is a row of *decisions* ("deliver that message", "node 2 loses power"), each of which is one
event: one step of one node, or one fault. `schedule` draws them from the seed, `world` carries them
out, `invariants` look at what each changed, and `liveness` says what must come true once the faults
are over. From the bottom up: `rules` is what a protocol defines for a run, `replica` a node as the
others see it (`own` is ours), `world` all of them, `timeline` what is planned, `operators`,
`faults` and `targeted_power_loss` what disturbs them, `protocols` which of these a protocol has.
The same seed gives the same decisions, bytes and hash on every machine: time is whole microseconds,
random numbers come from
``random.Random(seed).getrandbits`` alone, nothing iterates over a set.

Called by the command line, by campaigns over Spark and by tests; it may import `reference` and what
is below. Nothing of `reference` knows of it.
"""
