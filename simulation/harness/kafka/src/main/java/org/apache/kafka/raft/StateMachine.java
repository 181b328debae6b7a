package org.apache.kafka.raft;

import org.apache.kafka.snapshot.SnapshotReader;

/** Reads all that is committed, and tells the simulator what it was told. */
final class StateMachine implements RaftClient.Listener<byte[]> {
    private final Faults faults;
    private final Events events;

    StateMachine(Faults faults, Events events) {
        this.faults = faults;
        this.events = events;
    }

    @Override public void handleCommit(BatchReader<byte[]> reader) {
        faults.beforeEffect();
        long endOffset = reader.baseOffset();
        try (reader) {
            while (reader.hasNext()) {
                endOffset = reader.next().lastOffset() + 1;
            }
        }
        events.committed(endOffset);
    }

    @Override public void handleLoadSnapshot(SnapshotReader<byte[]> reader) {
        load(reader);
    }

    // Not marked as an override: releases before 4.3 do not have it.
    public void handleLoadBootstrap(SnapshotReader<byte[]> reader) {
        load(reader);
    }

    private void load(SnapshotReader<byte[]> reader) {
        faults.beforeEffect();
        try (reader) {
            while (reader.hasNext()) {
                reader.next();
            }
            events.loaded(reader.snapshotId());
        }
    }

    @Override public void handleLeaderChange(LeaderAndEpoch leader) {
        faults.beforeEffect();
        events.leader(leader.epoch(), leader.leaderId().orElse(-1));
    }
}
