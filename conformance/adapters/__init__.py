"""Adapters: programs that put a codec behind harness protocol 1, a folder each.

``harness`` speaks the protocol to a process, ``registry`` builds and starts adapters, ``ours`` is
kraftspec's own codec, and ``kafka`` is what only the adapter over Apache Kafka's classes can do.
``template`` has the skeletons that ``kraftspec conform init`` writes.

Called by the runner, the fuzzer, and whoever needs Kafka's verdict; it may import `raw`.
"""
