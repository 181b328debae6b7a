"""What operators run beside a node: format and describe its storage, look into its files.

In the words of Apache Kafka's own tools (``kafka.tools.StorageTool``, ``DumpLogSegments``): plain
functions over files here, their commands in ``kraftspec.cli``.

Called by the command line, by `local` and by the pipeline; they may import the node and what is
below it.
"""
