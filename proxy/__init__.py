"""A proxy between Kafka peers that understands every message and acts by rules.

It stands between clients, brokers and controllers. Frames that nobody asked about pass as they
came, piece by piece; the others are decoded by the generated codecs, and rules delay, drop, change
or answer them. `server` listens, and `connection` forwards one connection: `stream` finds the
frames in what comes, `lane` sends what goes, in order. `rules` says what a rule is, `engine` which
rules a frame meets and what becomes of it, `error_answers` where an API has its error codes.
`rule_files` reads rules from YAML. Docs: docs/proxy.md.
"""
