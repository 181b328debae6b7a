import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Iterator;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/**
 * Reads a record batch in hex, a line of standard input a time, with Apache Kafka's own classes.
 *
 * <p>Answers with its records, each {@code offset,timestamp,key,value[,name=value]*} (null: "-",
 * and "." when there is none), or "refused" and what Kafka said.
 */
public final class RecordOracle {
    public static void main(String[] arguments) throws Exception {
        for (String line : new String(System.in.readAllBytes()).split("\n")) {
            try {
                System.out.println(read(HexFormat.of().parseHex(line)));
            } catch (Exception error) {
                System.out.println("refused " + error.toString().replaceAll("\\s+", " "));
            }
        }
    }

    private static String read(byte[] bytes) {
        Iterator<MutableRecordBatch> batches =
            MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator();
        if (!batches.hasNext())
            throw new IllegalArgumentException("there is no whole batch");
        MutableRecordBatch batch = batches.next();
        if (batch.magic() != 2 || batch.sizeInBytes() != bytes.length)
            throw new IllegalArgumentException("not one batch of magic 2");
        batch.ensureValid();
        StringBuilder rows = new StringBuilder();
        for (Record record : batch) {
            rows.append(rows.isEmpty() ? "" : " ");
            rows.append(record.offset()).append(',').append(record.timestamp());
            rows.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
            for (Header header : record.headers()) {
                byte[] name = header.key().getBytes(StandardCharsets.UTF_8);
                byte[] value = header.value();
                rows.append(',').append(hex(ByteBuffer.wrap(name))).append('=');
                rows.append(hex(value == null ? null : ByteBuffer.wrap(value)));
            }
        }
        return rows.isEmpty() ? "." : rows.toString();
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
