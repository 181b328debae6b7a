"""The runner: a codec or a node is asked the golden vectors, and every answer is judged.

``cases`` chooses tests, ``pool`` keeps several adapters at work and charges crashes and hangs,
``judge`` gives a verdict, ``known`` holds the failures that are expected, and ``run`` puts these
together for ``kraftspec conform run``. ``node`` replays the vectors of nodes, with what
``metadata_batches`` leaves out of their logs.

Called by the command line, by reports, and by campaigns over Spark; it may import `adapters`.
"""
