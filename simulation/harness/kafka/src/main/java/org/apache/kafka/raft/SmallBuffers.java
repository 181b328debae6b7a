package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import org.apache.kafka.common.memory.MemoryPool;

/**
 * Buffers of a size that simulated batches need. Those of Kafka take 8 MiB each; these grow where
 * more is written.
 */
final class SmallBuffers implements MemoryPool {
    private static final int SIZE = 1 << 14;
    private static final int KEPT_MAX = 64;

    private final ArrayDeque<ByteBuffer> free = new ArrayDeque<>();

    @Override public ByteBuffer tryAllocate(int sizeBytes) {
        ByteBuffer buffer = free.poll();
        return buffer == null ? ByteBuffer.allocate(SIZE) : buffer;
    }

    @Override public void release(ByteBuffer buffer) {
        if (buffer.capacity() == SIZE && free.size() < KEPT_MAX) {
            free.push(buffer.clear());
        }
    }

    @Override public long size() {
        return Long.MAX_VALUE;
    }

    @Override public long availableMemory() {
        return Long.MAX_VALUE;
    }

    @Override public boolean isOutOfMemory() {
        return false;
    }
}
