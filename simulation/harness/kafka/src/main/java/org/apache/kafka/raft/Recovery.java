package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * What Kafka does with a log when it opens it.
 *
 * <p>The metadata log is always opened as after an unclean shutdown and with a recovery point of 0.
 * So all its batches are read, durable or not, and the log is cut at the first whose CRC is wrong
 * or that is incomplete; whatever follows goes as well. The CRC leaves out the base offset, the
 * length, the leader epoch and the magic number: a batch that rotted there may be taken as it is.
 *
 * <p>Of base offsets that do not rise, Kafka refuses some with an error and takes others, as its
 * indexes happen to be. Here all are refused.
 */
final class Recovery {
    // Where the fields of a batch are.
    private static final int LENGTH_POSITION = 8;
    private static final int LENGTH_END = 12;
    private static final int EPOCH_POSITION = 12;
    private static final int MAGIC_POSITION = 16;
    private static final int HEADER_SIZE_UP_TO_MAGIC = 17;
    private static final int CRC_POSITION = 17;
    private static final int CRC_END = 21;
    private static final int LAST_OFFSET_DELTA_POSITION = 23;

    private Recovery() { }

    /** Cuts the log where Kafka would. Leaves a log alone whose bytes are as they were written. */
    static void run(StoredLog log, Faults faults) throws Faults.DiskError {
        if (!log.isDamaged()) {
            return;
        }
        List<StoredBatch> stored = log.batches();
        List<StoredBatch> valid = validBatches(contentOf(log));
        if (valid.size() < stored.size() || log.tornBytes().length > 0) {
            faults.beforeOperation();
        }
        int sameCount = 0;
        while (sameCount < valid.size() && sameCount < stored.size()
                && valid.get(sameCount).bytes().length == stored.get(sameCount).bytes().length) {
            sameCount++;
        }
        log.replace(valid, sameCount);
    }

    private static ByteBuffer contentOf(StoredLog log) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        log.batches().forEach(batch -> content.writeBytes(batch.bytes()));
        content.writeBytes(log.tornBytes());
        return ByteBuffer.wrap(content.toByteArray());
    }

    private static List<StoredBatch> validBatches(ByteBuffer content) {
        List<StoredBatch> valid = new ArrayList<>();
        long endOffset = 0;
        while (content.remaining() > HEADER_SIZE_UP_TO_MAGIC) {
            int start = content.position();
            long size = LENGTH_END + (long) content.getInt(start + LENGTH_POSITION);
            if (size < DefaultRecordBatch.RECORD_BATCH_OVERHEAD || size > content.remaining()
                    // A byte that is no magic number, or a later one, is not looked at.
                    || content.get(start + MAGIC_POSITION) < RecordBatch.MAGIC_VALUE_V2) {
                break;
            }
            byte[] bytes = new byte[(int) size];
            content.get(bytes);
            ByteBuffer batch = ByteBuffer.wrap(bytes);
            CRC32C crc = new CRC32C();
            crc.update(bytes, CRC_END, bytes.length - CRC_END);
            if ((int) crc.getValue() != batch.getInt(CRC_POSITION)) {
                break;
            }
            long baseOffset = batch.getLong(0);
            if (baseOffset < endOffset) {
                throw new IllegalArgumentException("cannot open the log: a batch at offset "
                    + baseOffset + " follows one that ends at " + endOffset);
            }
            endOffset = baseOffset + batch.getInt(LAST_OFFSET_DELTA_POSITION) + 1;
            valid.add(new StoredBatch(
                baseOffset, endOffset - 1, batch.getInt(EPOCH_POSITION), bytes));
        }
        return valid;
    }
}
