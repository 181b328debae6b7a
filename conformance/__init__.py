"""Golden vectors, and what it takes to judge a codec or a node by them.

A *vector* is a value and its expected bytes, which come from Apache Kafka's own classes and never
from our encoder. An *adapter* is a program that answers JSON lines on a pipe, so a codec in any
language can be judged. The *runner* sends every vector in both directions to an adapter. For each
wrong answer it reports the field, the byte, and the command that repeats it.

Called by the command line, by campaigns over Spark, and by `interop` for its cluster; it may import
`reference` and what is below.
"""
