package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.zip.CRC32C;

/** The batches of a log on a {@link Disk}, and how many of them a power loss leaves. */
final class StoredLog {
    private static final byte[] NOTHING = {};

    private final List<StoredBatch> batches = new ArrayList<>();
    private int durableCount;
    private long startOffset;
    private byte[] tornBytes = NOTHING; // Behind the last batch: a part of one being written.
    private boolean isRotten; // The bytes of a batch were changed since they were written.

    List<StoredBatch> batches() {
        return Collections.unmodifiableList(batches);
    }

    byte[] tornBytes() {
        return tornBytes;
    }

    long startOffset() {
        return startOffset;
    }

    long endOffset() {
        return endOf(batches.size());
    }

    long durableEndOffset() {
        return endOf(durableCount);
    }

    private long endOf(int count) {
        return count == 0 ? startOffset : batches.get(count - 1).lastOffset() + 1;
    }

    boolean isFlushed() {
        return durableCount == batches.size();
    }

    void flush() {
        durableCount = batches.size();
    }

    /** Whether not all its bytes are as they were written. */
    boolean isDamaged() {
        return isRotten || tornBytes.length > 0;
    }

    void append(StoredBatch batch) {
        batches.add(batch);
    }

    /** What stays of a batch that was being written. */
    void appendTorn(byte[] bytes) {
        tornBytes = bytes;
    }

    /** Of the batch that has the offset, or of the next one. */
    int indexOf(long offset) {
        int low = 0;
        int high = batches.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (batches.get(middle).lastOffset() < offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /**
     * Reads from a batch on, as a file is read: the first batch whole, the last one as far as the
     * limit goes. Null where no batch begins before {@code until}.
     */
    ByteBuffer read(int first, long until, int maxBytes) {
        int last = first;
        int size = 0;
        while (last < batches.size() && batches.get(last).baseOffset() < until
                && (last == first || size < maxBytes)) {
            int length = batches.get(last).bytes().length;
            size += last == first ? length : Math.min(length, maxBytes - size);
            last++;
        }
        if (last == first) {
            return null;
        }
        if (last == first + 1) {
            return ByteBuffer.wrap(batches.get(first).bytes());
        }
        ByteBuffer content = ByteBuffer.allocate(size);
        for (int i = first; i < last; i++) {
            byte[] bytes = batches.get(i).bytes();
            content.put(bytes, 0, Math.min(bytes.length, content.remaining()));
        }
        return content.flip();
    }

    /** Drops batches from the end until {@code count} are left. */
    void keep(int count) {
        batches.subList(count, batches.size()).clear();
        durableCount = Math.min(durableCount, count);
        tornBytes = NOTHING;
    }

    /** Empties the log. */
    void restartAt(long offset) {
        keep(0);
        startOffset = offset;
    }

    /** Lets the log begin here; false: no batch lay before it. */
    boolean moveStart(long offset) {
        int dropped = indexOf(offset);
        batches.subList(0, dropped).clear();
        durableCount = Math.max(0, durableCount - dropped);
        startOffset = offset;
        return dropped > 0;
    }

    /** Puts the batches in the place of what the disk had, of which so many are the same. */
    void replace(List<StoredBatch> recovered, int sameCount) {
        int durable = Math.min(durableCount, sameCount);
        keep(0);
        batches.addAll(recovered);
        durableCount = durable;
        isRotten = false;
    }

    /** The power is gone. What the disk has after that, it has for good. */
    void losePower(int keptCount, int tornCount) {
        int kept = (int) Math.min(batches.size(), (long) durableCount + keptCount);
        byte[] next = kept < batches.size() ? batches.get(kept).bytes() : tornBytes;
        byte[] torn = Arrays.copyOf(next, Math.min(tornCount, next.length));
        keep(kept);
        tornBytes = torn;
        durableCount = kept;
    }

    /** Flips bits of the batch with this base offset; false: there is none, or it is shorter. */
    boolean rot(long baseOffset, int position, int mask) {
        int index = indexOf(baseOffset);
        if (index == batches.size()) {
            return false;
        }
        StoredBatch batch = batches.get(index);
        if (batch.baseOffset() != baseOffset || position < 0
                || position >= batch.bytes().length) {
            return false;
        }
        byte[] bytes = batch.bytes().clone();
        bytes[position] ^= (byte) mask;
        batches.set(index, new StoredBatch(baseOffset, batch.lastOffset(), batch.epoch(), bytes));
        isRotten = true;
        return true;
    }

    /** CRC-32C over all its bytes. */
    int crc32c() {
        CRC32C crc = new CRC32C();
        for (StoredBatch batch : batches) {
            crc.update(batch.bytes(), 0, batch.bytes().length);
        }
        return (int) crc.getValue();
    }

    long size() {
        long size = 0;
        for (StoredBatch batch : batches) {
            size += batch.bytes().length;
        }
        return size;
    }
}
