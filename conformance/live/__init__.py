"""The live suite: scenarios between a running KRaft node and peers that the runner plays over TCP.

`scenario_files` reads scenarios from YAML, `scenarios/` has them, and `scenarios/roles.yaml` how
the runner brings a node into each role; `recorded` makes scenarios of node vectors. `target` runs
the four verbs of a node under test; `kafka` and `kraftspec` are such targets. `peers` listens for
what the node asks, `connection` asks it, and `messages` builds and matches what is sent. `run`
plays a scenario, `report.transcript` keeps the exchange, prints it and makes a capture of it, and
`page` shows results. Docs: docs/live.md.
"""
