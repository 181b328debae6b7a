package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.Iterator;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecord;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/** A record batch as if it were a message: JSON to Kafka's own builder, and its reader to JSON. */
final class RecordBatchCodec {
    static final String NAME = "RecordBatch";
    static final short VERSION = RecordBatch.MAGIC_VALUE_V2;

    private static final int ATTRIBUTES_AT = 21;
    private static final int COMPRESSION_MASK = 0x07;
    private static final int LOG_APPEND_TIME = 0x08;
    private static final int TRANSACTIONAL = 0x10;
    private static final int CONTROL = 0x20;
    private static final int DELETE_HORIZON = 0x40;

    private RecordBatchCodec() {}

    /** The fields before the records, as JSON names them. */
    private record Head(
        long baseOffset, int partitionLeaderEpoch, short attributes, int lastOffsetDelta,
        long baseTimestamp, long maxTimestamp, long producerId, short producerEpoch,
        int baseSequence) {

        static Head read(JsonNode value) {
            return new Head(
                MessageUtil.jsonNodeToLong(field(value, "baseOffset"), NAME),
                MessageUtil.jsonNodeToInt(field(value, "partitionLeaderEpoch"), NAME),
                MessageUtil.jsonNodeToShort(field(value, "attributes"), NAME),
                MessageUtil.jsonNodeToInt(field(value, "lastOffsetDelta"), NAME),
                MessageUtil.jsonNodeToLong(field(value, "baseTimestamp"), NAME),
                MessageUtil.jsonNodeToLong(field(value, "maxTimestamp"), NAME),
                MessageUtil.jsonNodeToLong(field(value, "producerId"), NAME),
                MessageUtil.jsonNodeToShort(field(value, "producerEpoch"), NAME),
                MessageUtil.jsonNodeToInt(field(value, "baseSequence"), NAME));
        }

        static Head of(MutableRecordBatch batch, short attributes) {
            DefaultRecordBatch head = (DefaultRecordBatch) batch;
            return new Head(
                batch.baseOffset(), batch.partitionLeaderEpoch(), attributes,
                (int) (batch.lastOffset() - batch.baseOffset()), head.baseTimestamp(),
                batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(),
                batch.baseSequence());
        }

        boolean has(int attribute) {
            return (attributes & attribute) != 0;
        }

        TimestampType timestampType() {
            return has(LOG_APPEND_TIME)
                ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        }

        void write(ObjectNode value) {
            value.put("baseOffset", baseOffset);
            value.put("partitionLeaderEpoch", partitionLeaderEpoch);
            value.put("attributes", attributes);
            value.put("lastOffsetDelta", lastOffsetDelta);
            value.put("baseTimestamp", baseTimestamp);
            value.put("maxTimestamp", maxTimestamp);
            value.put("producerId", producerId);
            value.put("producerEpoch", producerEpoch);
            value.put("baseSequence", baseSequence);
        }
    }

    /** Has the builder write the records; refuses a head that it would not write for them. */
    static byte[] encode(short version, JsonNode value) {
        checkVersion(version);
        if (!value.isObject() || !field(value, "records").isArray()) {
            throw new Refusal("wrong_type", "a batch is an object with an array of records");
        }
        Head head = Head.read(value);
        ByteBuffer made = value.get("records").isEmpty()
            ? empty(head) : build(head, value.get("records"));
        byte[] bytes = Utils.toArray(made);
        Head written = Head.of(only(bytes), made.getShort(made.position() + ATTRIBUTES_AT));
        if (!written.equals(head)) {
            throw new Refusal("refused", "Kafka's builder writes " + written + ", not " + head);
        }
        return bytes;
    }

    /** What compaction leaves of a batch that has lost all records. */
    private static ByteBuffer empty(Head head) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(
            buffer, RecordBatch.MAGIC_VALUE_V2, head.producerId, head.producerEpoch,
            head.baseSequence, head.baseOffset, head.baseOffset + head.lastOffsetDelta,
            head.partitionLeaderEpoch, head.timestampType(), head.maxTimestamp,
            head.has(TRANSACTIONAL), head.has(CONTROL));
        return buffer.flip();
    }

    private static ByteBuffer build(Head head, JsonNode records) {
        CompressionType type = CompressionType.forId(head.attributes & COMPRESSION_MASK);
        long horizon = head.has(DELETE_HORIZON) ? head.baseTimestamp : RecordBatch.NO_TIMESTAMP;
        ByteBufferOutputStream out = new ByteBufferOutputStream(1 << 16);
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                out, RecordBatch.MAGIC_VALUE_V2, Compression.of(type).build(),
                head.timestampType(), head.baseOffset, head.maxTimestamp, head.producerId,
                head.producerEpoch, head.baseSequence, head.has(TRANSACTIONAL), head.has(CONTROL),
                head.partitionLeaderEpoch, 1 << 16, horizon)) {
            for (JsonNode record : records) {
                append(builder, head, record);
            }
            builder.overrideLastOffset(head.baseOffset + head.lastOffsetDelta);
            return builder.build().buffer();
        }
    }

    private static void append(MemoryRecordsBuilder builder, Head head, JsonNode record) {
        if (MessageUtil.jsonNodeToByte(field(record, "attributes"), NAME) != 0) {
            throw new Refusal("refused", "Kafka's builder writes attributes of 0 only");
        }
        long offset = head.baseOffset
            + MessageUtil.jsonNodeToInt(field(record, "offsetDelta"), NAME);
        long timestamp = head.baseTimestamp
            + MessageUtil.jsonNodeToLong(field(record, "timestampDelta"), NAME);
        JsonNode given = field(record, "headers");
        Header[] headers = new Header[given.size()];
        for (int at = 0; at < headers.length; at++) {
            JsonNode header = given.get(at);
            headers[at] = new RecordHeader(
                text(field(header, "key")), binary(field(header, "value")));
        }
        byte[] key = binary(field(record, "key"));
        byte[] value = binary(field(record, "value"));
        if (head.has(CONTROL)) {
            builder.appendControlRecordWithOffset(
                offset, new SimpleRecord(timestamp, key, value, headers));
        } else {
            builder.appendWithOffset(offset, timestamp, key, value, headers);
        }
    }

    static MessageCodec.Decoded decode(short version, byte[] bytes) throws IOException {
        checkVersion(version);
        MutableRecordBatch batch = only(bytes);
        batch.ensureValid();
        ObjectNode value = JsonNodeFactory.instance.objectNode();
        Head.of(batch, ByteBuffer.wrap(bytes).getShort(ATTRIBUTES_AT)).write(value);
        ArrayNode records = value.putArray("records");
        DefaultRecordBatch stored = (DefaultRecordBatch) batch;
        batch.iterator().forEachRemaining(record -> { }); // Kafka's own verdict on the records.
        if (stored.countOrNull() == 0) {
            return new MessageCodec.Decoded(value, bytes.length - batch.sizeInBytes());
        }
        try (InputStream in = stored.recordInputStream(BufferSupplier.NO_CACHING)) {
            // Releases read a stream with different arguments, and a buffer all alike.
            ByteBuffer rest = ByteBuffer.wrap(in.readAllBytes());
            for (int left = stored.countOrNull(); left > 0; left--) {
                // From 0 on and with no append time: what is told are the deltas themselves.
                publish(DefaultRecord.readFrom(rest, 0, 0, RecordBatch.NO_SEQUENCE, null),
                    records.addObject());
            }
            if (rest.hasRemaining()) {
                throw new Refusal("record_count_mismatch", "bytes follow the last record");
            }
        }
        return new MessageCodec.Decoded(value, bytes.length - batch.sizeInBytes());
    }

    private static void publish(DefaultRecord record, ObjectNode value) {
        value.put("attributes", record.attributes());
        value.put("timestampDelta", record.timestamp());
        value.put("offsetDelta", record.offset());
        put(value, "key", record.hasKey() ? Utils.toArray(record.key()) : null);
        put(value, "value", record.hasValue() ? Utils.toArray(record.value()) : null);
        ArrayNode headers = value.putArray("headers");
        for (Header header : record.headers()) {
            ObjectNode node = headers.addObject();
            node.put("key", header.key());
            put(node, "value", header.value());
        }
    }

    /** The batch that the bytes begin with. */
    private static MutableRecordBatch only(byte[] bytes) {
        Iterator<MutableRecordBatch> batches =
            MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator();
        if (!batches.hasNext()) {
            throw new Refusal("truncated", "no whole batch in " + bytes.length + " bytes");
        }
        MutableRecordBatch batch = batches.next();
        if (batch.magic() != VERSION) {
            throw new Refusal("bad_magic", "magic " + batch.magic());
        }
        return batch;
    }

    private static void checkVersion(short version) {
        if (version != VERSION) {
            throw new Refusal("unsupported_version", NAME + " has version 2, not " + version);
        }
    }

    private static JsonNode field(JsonNode value, String name) {
        JsonNode node = value.get(name);
        if (node == null) {
            throw new Refusal("missing_field", "unable to locate field '" + name + "'");
        }
        return node;
    }

    private static String text(JsonNode node) {
        if (!node.isTextual()) {
            throw new Refusal(node.isNull() ? "null_for_non_nullable" : "wrong_type",
                "the key of a header is text, not " + node);
        }
        return node.textValue();
    }

    private static byte[] binary(JsonNode node) {
        return node.isNull() ? null : MessageUtil.jsonNodeToBinary(node, NAME);
    }

    private static void put(ObjectNode node, String name, byte[] bytes) {
        if (bytes == null) {
            node.putNull(name);
        } else {
            node.put(name, bytes);
        }
    }
}
