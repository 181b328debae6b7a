import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills a topic with records of 8 bytes of key and 100 of value, at the producer's own defaults:
 * BOOTSTRAP TOPIC PARTITIONS RECORDS CODEC HEADERS.
 *
 * Record i goes to partition i % PARTITIONS, at TIME_MS + i / 1000: what must be read is known.
 * Values are lines of JSON as applications write them: names that repeat, numbers that do not.
 */
final class BenchWriter {
    private static final long TIME_MS = 1_700_000_000_000L;
    private static final int VALUE_BYTES = 100;
    private static final List<String> EVENTS = List.of("view", "click", "order", "refund");

    private BenchWriter() {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        long records = Long.parseLong(arguments[3]);
        int headers = Integer.parseInt(arguments[5]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(properties)) {
            NewTopic made = new NewTopic(topic, partitions, (short) 1);
            // The timestamps are old: nothing may be deleted for that.
            admin.createTopics(List.of(made.configs(Map.of("retention.ms", "-1")))).all().get();
        }
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("compression.type", arguments[4]);
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (long at = 0; at < records && failed.get() == null; at++) {
                long mixed = mixed(at);
                var record = new ProducerRecord<>(topic, (int) (at % partitions),
                    TIME_MS + at / 1000, digits(mixed, 8), value(at, mixed));
                for (int header = 0; header < headers; header++) {
                    record.headers().add("header-" + header, digits(mixed + header, 16));
                }
                producer.send(record, (metadata, error) -> {
                    if (error != null) {
                        failed.compareAndSet(null, error);
                    }
                });
            }
        }
        if (failed.get() != null) {
            throw new IllegalStateException(failed.get());
        }
    }

    /** A number that looks random, and is the same for the same record (SplitMix64). */
    private static long mixed(long at) {
        long mixed = at * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return mixed ^ (mixed >>> 31);
    }

    private static byte[] digits(long number, int size) {
        byte[] made = new byte[size];
        for (int at = 0; at < size; at++) {
            made[at] = (byte) "0123456789abcdef".charAt((int) (number >>> (4 * (at % 16))) & 15);
        }
        return made;
    }

    private static byte[] value(long at, long mixed) {
        String event = EVENTS.get((int) (mixed & 3));
        byte[] text = ("{\"event\":\"" + event + "\",\"user\":" + (mixed >>> 44) + ",\"cents\":"
            + (mixed & 0xFFFF) + ",\"path\":\"/items/" + (mixed >>> 16 & 0xFFF)
            + "\",\"ok\":true,\"id\":\"").getBytes(StandardCharsets.US_ASCII);
        byte[] made = new byte[VALUE_BYTES];
        System.arraycopy(text, 0, made, 0, text.length);
        byte[] rest = digits(mixed * 31 + at, VALUE_BYTES - text.length - 2);
        System.arraycopy(rest, 0, made, text.length, rest.length);
        made[VALUE_BYTES - 2] = '"';
        made[VALUE_BYTES - 1] = '}';
        return made;
    }
}
