"""The metadata log's records, and the image of the cluster that they add up to.

``frames`` reads which message a record is, ``image`` folds the messages into the state of the
cluster, ``load`` loads it from a checkpoint and the log after it, whatever reads their files:
``reader`` reads those of this machine.

Called by the node, the shell and the pipeline; it may import `raft` and `log`.
"""
