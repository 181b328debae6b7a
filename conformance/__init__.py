"""The proof: golden vectors, and the means to hold any codec against them.

A *vector* is a value, the bytes it must become, and who says so: Apache Kafka's own classes, never
our encoder. An *adapter* is any program that answers JSON lines on a pipe, so a codec in any
language can be judged. The *runner* asks an adapter every vector in both directions and says which
answer was wrong, at which field and which byte, and how to ask that one question again.
"""
