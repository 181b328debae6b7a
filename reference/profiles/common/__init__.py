"""What profiles share: messages that name topics and partitions, of which a quorum has one each.

Apache Kafka and two of the drafts, KIP-853 and KIP-996, have the same messages but for some fields,
and each has generated classes of its own. A function here is given those classes, or a message of
one, and touches the fields that all have; a profile adds the rest. Type variables list the classes,
so that the type checker looks at each function once for each profile.
"""
