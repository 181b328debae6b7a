"""A quorum of nodes on loopback, in one process: `kraftspec quorum up`, tests, benchmarks.

The profile's `node` writes the properties of the nodes and formats their directories, `quorum`
starts them, and `live_view` is the live view of one. It stands above the node and may import all of
`reference`.
"""
