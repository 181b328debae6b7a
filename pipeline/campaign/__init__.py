"""Campaigns: much work of one kind, in units, over Spark's executors, to Parquet.

A *kind* (``kind``) divides its work into units, and does one: ``conform`` holds adapters against
the golden vectors, ``differential`` asks two adapters the same random questions, ``codec`` throws
changed vectors at our own codecs. What a unit does follows from the options alone, and its result
is one file (``store``): what is there is never done again, so that a campaign goes on where it was
interrupted, and its totals are exact. ``drive`` spreads the units over Spark, ``summary`` counts by
Spark SQL, ``page`` is what people read.

One more kind is one more class with the fields of its options and the methods of ``kind.Kind``.
"""
