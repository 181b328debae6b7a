"""A quorum, its network, its disks and its clocks in one process, owned by one seed.

Nodes are the reference core and the reference log as they are; between them cross encoded bytes.
A run is a row of *decisions* ("deliver that message", "node 2 loses power"), each of which is one
event: one step of one node, or one fault. `schedule` draws them from the seed, `world` carries them
out, `invariants` look at what each changed, and `liveness` says what must come true once the faults
are over. The same seed gives the same decisions, bytes and hash on every machine: time is whole
microseconds, chance is ``random.Random(seed).getrandbits`` alone, nothing iterates over a set.
"""
