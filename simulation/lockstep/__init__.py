"""Our core and Apache Kafka's in lock-step: the same inputs to both, and all that follows compared.

``run`` runs seeds, ``replica`` has the pair of nodes, ``step`` what is compared, ``rules`` the
differences that are explained. docs/lock-step.md says how to read the figures.
"""
