"""The metadata log's records, and the image of the cluster that they add up to.

``frames`` reads which message a record is, ``image`` folds the messages into the state of the
cluster, ``join`` a checkpoint and the log after it, from whatever reads their files: ``reader``
does for those of this machine.
"""
