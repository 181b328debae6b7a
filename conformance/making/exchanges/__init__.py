"""Golden exchanges: a real Kafka controller asked in known states, and our node asked the same.

``kafka`` puts a real controller into the state of a node vector, among scripted peers, and
``reference`` the reference node, without Java. ``record`` makes vectors of the ``scenarios``.
"""
