"""The suite for clients: a program drives a client, and a broker misbehaves as a file says.

`exchange_files` reads exchanges from YAML, `exchanges/` has them. `broker` is a small broker made
of the generated codecs, `answers` lets it lie, `batches` makes the records that it has, and `stage`
puts the fault proxy before it, or before Kafka. `driver` is the process that drives a client,
`run` plays an exchange with it and judges. `reference` is a client of our own, good or, by a
switch, wrong in one way. Drivers of real clients are in `drivers/`. Docs: docs/clients.md.
"""
