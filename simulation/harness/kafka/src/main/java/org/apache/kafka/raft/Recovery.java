package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * What Kafka does with a log when it opens it.
 *
 * <p>The metadata log is always opened as after an unclean shutdown and with a recovery point of 0.
 * So all its batches are read, durable or not, and the log is cut at the first whose CRC is wrong
 * or that is incomplete; whatever follows goes as well. The CRC leaves out the base offset, the
 * length and the leader epoch: a batch that rotted there may be taken as it is.
 */
final class Recovery {
    private Recovery() { }

    /** Cuts the log where Kafka would. Leaves a log alone whose bytes are as they were written. */
    static void run(Disk disk, Faults faults) throws Faults.DiskError {
        if (!disk.isRotten && disk.tornBytes.length == 0) {
            return;
        }
        List<StoredBatch> valid = validBatches(contentOf(disk));
        int same = 0;
        while (same < valid.size() && same < disk.batches.size()
                && valid.get(same).bytes().length == disk.batches.get(same).bytes().length) {
            same++;
        }
        if (valid.size() < disk.batches.size() || disk.tornBytes.length > 0) {
            faults.beforeOperation();
        }
        // Batches of the same length at the same place: only what was read from them can differ.
        int durable = Math.min(disk.durableBatchCount, same);
        disk.keepBatches(0);
        disk.batches.addAll(valid);
        disk.durableBatchCount = durable;
        disk.isRotten = false;
    }

    private static ByteBuffer contentOf(Disk disk) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        disk.batches.forEach(batch -> content.writeBytes(batch.bytes()));
        content.writeBytes(disk.tornBytes);
        return ByteBuffer.wrap(content.toByteArray());
    }

    private static List<StoredBatch> validBatches(ByteBuffer content) {
        List<StoredBatch> valid = new ArrayList<>();
        try {
            for (RecordBatch batch : MemoryRecords.readableRecords(content).batches()) {
                batch.ensureValid();
                valid.add(StoredBatch.copyOf(batch));
            }
        } catch (CorruptRecordException | InvalidRecordException error) {
            return valid;
        }
        return valid;
    }
}
