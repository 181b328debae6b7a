package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.function.Consumer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.record.internal.UnalignedMemoryRecords;

/** Record batches, as a leader's log and a checkpoint have them. */
final class Batches {
    private static final int SIZE_MAX = 1 << 16;

    private Batches() { }

    static byte[] data(long baseOffset, int epoch, String... values) {
        return batch(baseOffset, epoch, false, builder -> {
            for (String value : values) {
                builder.append(new SimpleRecord(0, value.getBytes(StandardCharsets.UTF_8)));
            }
        });
    }

    static byte[] control(long baseOffset, int epoch, ApiMessage... values) {
        return batch(baseOffset, epoch, true, builder -> {
            for (ApiMessage value : values) {
                appendControl(builder, value);
            }
        });
    }

    private static void appendControl(MemoryRecordsBuilder builder, ApiMessage value) {
        if (value instanceof LeaderChangeMessage message) {
            builder.appendLeaderChangeMessage(0, message);
        } else if (value instanceof KRaftVersionRecord message) {
            builder.appendKRaftVersionMessage(0, message);
        } else if (value instanceof VotersRecord message) {
            builder.appendVotersMessage(0, message);
        } else if (value instanceof SnapshotHeaderRecord message) {
            builder.appendSnapshotHeaderMessage(0, message);
        } else {
            builder.appendSnapshotFooterMessage(0, (SnapshotFooterRecord) value);
        }
    }

    private static byte[] batch(long baseOffset, int epoch, boolean isControl,
                                Consumer<MemoryRecordsBuilder> appends) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            ByteBuffer.allocate(SIZE_MAX), RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
            TimestampType.CREATE_TIME, baseOffset, RecordBatch.NO_TIMESTAMP,
            RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE,
            false, isControl, epoch, SIZE_MAX);
        appends.accept(builder);
        ByteBuffer written = builder.build().buffer();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return bytes;
    }

    static byte[] hex(String digits) {
        return HexFormat.of().parseHex(digits);
    }

    static byte[] joined(byte[]... parts) {
        int size = 0;
        for (byte[] part : parts) {
            size += part.length;
        }
        ByteBuffer all = ByteBuffer.allocate(size);
        for (byte[] part : parts) {
            all.put(part);
        }
        return all.array();
    }

    static MemoryRecords records(byte[]... batches) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(joined(batches)));
    }

    /** A piece of a snapshot, which may end within a batch. */
    static UnalignedMemoryRecords piece(String digits) {
        return new UnalignedMemoryRecords(ByteBuffer.wrap(hex(digits)));
    }

    /** The last voter set in batches; null: there is none. */
    static VoterSet lastVoters(byte[] batches) {
        VoterSet found = null;
        for (MutableRecordBatch batch : records(batches).batches()) {
            if (!batch.isControlBatch()) {
                continue;
            }
            for (Record record : batch) {
                if (ControlRecordType.parse(record.key()) == ControlRecordType.KRAFT_VOTERS) {
                    found = VoterSet.fromVotersRecord(
                        ControlRecordUtils.deserializeVotersRecord(record));
                }
            }
        }
        return found;
    }
}
