package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.TreeMap;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.server.common.OffsetAndEpoch;

/**
 * The disk of one node: the log, its checkpoints and quorum-state. It outlives the clients that use
 * it, and knows what of it a power loss leaves.
 *
 * <p>A batch is durable once the log was flushed after it. Neither the end of a process
 * nor opening a log flushes. A file that was renamed to its name is durable once
 * its directory was synced; Kafka does so for quorum-state and for checkpoints before it goes on,
 * so that only a power loss between those two operations can take such a file. What was cut off or
 * deleted is gone at once. (A real file system may bring it back after a power loss. Kafka then
 * deletes checkpoints before the start of the log, and old batches behind its end are cut again
 * like any that the leader does not have.)
 */
final class Disk {
    /** A checkpoint; not named: the power may take it, for its directory was not synced. */
    record Checkpoint(byte[] content, boolean isNamed) { }

    /** What quorum-state has. */
    record Election(QuorumStateData data) {
        ElectionState state() {
            return ElectionState.fromQuorumStateData(data);
        }
    }

    final StoredLog log = new StoredLog();
    final LeaderEpochs leaderEpochs = new LeaderEpochs(); // In a file that is synced at once.
    final TreeMap<OffsetAndEpoch, Checkpoint> checkpoints = new TreeMap<>();
    /** Stored as the power went, so that nobody was told; true: by its own state machine. */
    final TreeMap<OffsetAndEpoch, Boolean> untold = new TreeMap<>();
    Election election;
    Election durableElection;

    /** Puts a log and a quorum-state there, durably. */
    void restore(long startOffset, byte[] data, ElectionState state) {
        leaderEpochs.clear();
        log.restartAt(startOffset);
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            log.append(StoredBatch.copyOf(batch));
        }
        log.flush();
        election = new Election(state.toQuorumStateData((short) 1));
        durableElection = election;
    }

    /** The power is gone: of what was not synced, only this stays. */
    void losePower(int batchCount, int tornByteCount, boolean keepsFiles) {
        log.losePower(batchCount, tornByteCount);
        if (!keepsFiles) {
            election = durableElection;
            checkpoints.values().removeIf(checkpoint -> !checkpoint.isNamed());
        }
        durableElection = election;
        checkpoints.replaceAll((id, checkpoint) -> new Checkpoint(checkpoint.content(), true));
    }
}
