package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.RecordBatch;

/** One record batch as the log has it: its bytes, and what is asked of them most. */
record StoredBatch(long baseOffset, long lastOffset, int epoch, byte[] bytes) {
    static StoredBatch copyOf(RecordBatch batch) {
        byte[] bytes = new byte[batch.sizeInBytes()];
        batch.writeTo(ByteBuffer.wrap(bytes));
        return new StoredBatch(
            batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(), bytes);
    }
}
