package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.zip.CRC32C;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.server.common.OffsetAndEpoch;

/**
 * The disk of one node: the log, its checkpoints and quorum-state. It outlives the clients that use
 * it, and knows what of it a power loss leaves.
 *
 * <p>A batch is durable once the log was flushed after it. A file that was renamed to its name is
 * durable once its directory was synced; Kafka does so for quorum-state and for checkpoints before
 * it goes on, so that only a power loss between those two operations can take such a file. What
 * was cut off or deleted is gone at once. (A real file system may bring it back after a power loss.
 * Kafka then deletes checkpoints before the start of the log, and old batches behind its end are
 * cut again like any that the leader does not have.)
 */
final class Disk {
    /** A checkpoint; not named: the power may take it, for its directory was not synced. */
    record Checkpoint(byte[] content, boolean isNamed) { }

    /** What quorum-state has, with the version of its schema. */
    record Election(QuorumStateData data, short version) {
        ElectionState state() {
            return ElectionState.fromQuorumStateData(data);
        }
    }

    private static final byte[] NOTHING = {};

    final List<StoredBatch> batches = new ArrayList<>();
    final TreeMap<OffsetAndEpoch, Checkpoint> checkpoints = new TreeMap<>();
    int durableBatchCount;
    long startOffset;
    byte[] tornBytes = NOTHING; // Behind the last batch: a part of one that was being written.
    boolean isRotten; // The bytes of a batch were changed since they were written.
    Election election;
    Election durableElection;

    long endOffset() {
        return endOf(batches.size());
    }

    long durableEndOffset() {
        return endOf(durableBatchCount);
    }

    private long endOf(int count) {
        return count == 0 ? startOffset : batches.get(count - 1).lastOffset() + 1;
    }

    /** Drops batches from the end until {@code count} are left. */
    void keepBatches(int count) {
        batches.subList(count, batches.size()).clear();
        durableBatchCount = Math.min(durableBatchCount, count);
        tornBytes = NOTHING;
    }

    /** Empties the log. */
    void restartLogAt(long offset) {
        keepBatches(0);
        startOffset = offset;
    }

    void flush() {
        durableBatchCount = batches.size();
    }

    /** The power is gone: of what was not synced, only this stays. */
    void losePower(int batchCount, int tornByteCount, boolean keepsFiles) {
        int kept = (int) Math.min(batches.size(), (long) durableBatchCount + batchCount);
        byte[] torn = NOTHING;
        if (kept < batches.size()) {
            byte[] next = batches.get(kept).bytes();
            torn = Arrays.copyOf(next, Math.min(tornByteCount, next.length));
        } else if (tornBytes.length > 0) {
            torn = Arrays.copyOf(tornBytes, Math.min(tornByteCount, tornBytes.length));
        }
        keepBatches(kept);
        tornBytes = torn;
        // What the disk has now, it has for good.
        durableBatchCount = kept;
        if (!keepsFiles) {
            election = durableElection;
            checkpoints.values().removeIf(checkpoint -> !checkpoint.isNamed());
        }
        durableElection = election;
        checkpoints.replaceAll((id, checkpoint) -> new Checkpoint(checkpoint.content(), true));
    }

    /** Flips bits of the batch with this base offset; false: there is none, or it is shorter. */
    boolean rot(long baseOffset, int position, int mask) {
        for (int i = 0; i < batches.size(); i++) {
            StoredBatch batch = batches.get(i);
            if (batch.baseOffset() == baseOffset && position >= 0
                    && position < batch.bytes().length) {
                byte[] bytes = batch.bytes().clone();
                bytes[position] ^= (byte) mask;
                batches.set(i, new StoredBatch(
                    baseOffset, batch.lastOffset(), batch.epoch(), bytes));
                isRotten = true;
                return true;
            }
        }
        return false;
    }

    /** CRC-32C over all bytes of the log. */
    int crc32c() {
        CRC32C crc = new CRC32C();
        for (StoredBatch batch : batches) {
            crc.update(batch.bytes(), 0, batch.bytes().length);
        }
        return (int) crc.getValue();
    }

    long logSize() {
        long size = 0;
        for (StoredBatch batch : batches) {
            size += batch.bytes().length;
        }
        return size;
    }
}
