"""The programs that do the work: in Java, in Go and in Python.

Each takes where the cluster is and the parts to run, prints ``phase NAME`` before a part and
``failed NAME: WHY`` after one that did not do what it was written to do.
"""
