package kraftspec.peer;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;
import org.apache.kafka.common.utils.internals.CloseableIterator;
import org.apache.kafka.common.utils.Utils;

/** Record batches, written as the producer does and read as the consumer does. */
final class Batches {
    /** What a producer hands to the builder. */
    private record Given(long timestamp, byte[] key, byte[] value, Header[] headers) {
    }

    private Batches() {
    }

    /** Takes the records out of a batch and appends them to a builder over one reused buffer. */
    static Task encode(byte[] data) {
        List<Given> records = new ArrayList<>();
        for (Record record : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).records()) {
            records.add(new Given(record.timestamp(), Utils.toNullableArray(record.key()),
                Utils.toNullableArray(record.value()), record.headers()));
        }
        Given[] given = records.toArray(new Given[0]);
        ByteBuffer buffer = ByteBuffer.allocate(data.length);
        ByteBuffer written = write(buffer, given).buffer();
        byte[] made = new byte[written.remaining()];
        written.duplicate().get(made);
        long check = Main.same(made, data);
        return new Task(() -> write(buffer, given).sizeInBytes(), given.length, check);
    }

    private static MemoryRecords write(ByteBuffer buffer, Given[] records) {
        buffer.clear();
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                new ByteBufferOutputStream(buffer), RecordBatch.MAGIC_VALUE_V2, Compression.NONE,
                TimestampType.CREATE_TIME, 0L, RecordBatch.NO_TIMESTAMP,
                RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE,
                false, false, RecordBatch.NO_PARTITION_LEADER_EPOCH, buffer.capacity())) {
            for (Given record : records) {
                builder.append(record.timestamp, record.key, record.value, record.headers);
            }
            return builder.build();
        }
    }

    /** Checks the CRC, then iterates: keys and values are slices of the batch. */
    static Task decode(byte[] data) {
        ByteBuffer buffer = ByteBuffer.wrap(data);
        CRC32C crc = new CRC32C();
        int count = 0;
        for (Record record : MemoryRecords.readableRecords(buffer.duplicate()).records()) {
            chain(crc, record);
            count++;
        }
        return new Task(() -> read(buffer.duplicate()), count, crc.getValue());
    }

    private static long read(ByteBuffer buffer) {
        long seen = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> records =
                    batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                while (records.hasNext()) {
                    Record record = records.next();
                    ByteBuffer key = record.key();
                    ByteBuffer value = record.value();
                    seen += record.offset() + record.timestamp() + record.headers().length;
                    seen += key == null ? 0 : key.remaining();
                    seen += value == null ? 0 : value.remaining();
                }
            }
        }
        return seen;
    }

    /** Carries the CRC on over all that a record says. */
    private static void chain(CRC32C crc, Record record) {
        crc.update(ByteBuffer.allocate(16)
            .putLong(record.offset()).putLong(record.timestamp()).flip());
        if (record.hasKey()) {
            crc.update(record.key());
        }
        if (record.hasValue()) {
            crc.update(record.value());
        }
        for (Header header : record.headers()) {
            crc.update(Utils.utf8(header.key()));
            if (header.value() != null) {
                crc.update(header.value());
            }
        }
    }
}
