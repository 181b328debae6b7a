import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes every shape of log through Apache Kafka's own producer, and what the broker acknowledged
 * beside it: one line of JSON a record. Run as BOOTSTRAP MANIFEST PART, where PART is "all" or, for
 * a broker that is about to be killed, "more".
 */
final class LogWriter {
    static final long TIME_MS = 1_700_000_000_000L;
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private final String bootstrap;
    private final Manifest manifest;
    private final Random random = new Random(20_231_114);

    private LogWriter(String bootstrap, Manifest manifest) {
        this.bootstrap = bootstrap;
        this.manifest = manifest;
    }

    public static void main(String[] arguments) throws Exception {
        try (Manifest manifest = new Manifest(Path.of(arguments[1]))) {
            LogWriter writer = new LogWriter(arguments[0], manifest);
            if (arguments[2].equals("more")) {
                writer.more();
            } else {
                writer.all();
            }
        }
        // Not by return: that would close a producer, and so abort the transaction it has open.
        Runtime.getRuntime().halt(0);
    }

    private void all() throws Exception {
        createTopics();
        plain();
        idempotent();
        for (String codec : CODECS) {
            compressed(codec);
        }
        headers();
        nulls();
        times();
        large();
        segments();
        compacted();
        trimmed();
        new Transactions(this, manifest).run();
    }

    private void createTopics() throws Exception {
        Map<String, String> small = Map.of("internal.segment.bytes", "16384");
        Map<String, String> compacts = Map.of(
            "cleanup.policy", "compact", "internal.segment.bytes", "4096",
            "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "600000");
        List<NewTopic> topics = new ArrayList<>();
        topics.add(topic("plain", 3, Map.of()));
        topics.add(topic("idempotent", 2, Map.of()));
        for (String codec : CODECS) {
            topics.add(topic("codec-" + codec, 1, Map.of()));
        }
        // The broker writes these batches anew, whatever the producer sent.
        topics.add(topic("recompressed", 1, Map.of("compression.type", "zstd")));
        topics.add(topic("headers", 1, Map.of()));
        topics.add(topic("nulls", 1, Map.of()));
        topics.add(topic("create-time", 1, Map.of()));
        topics.add(topic("append-time", 1, Map.of("message.timestamp.type", "LogAppendTime")));
        topics.add(topic("large", 1, Map.of("max.message.bytes", "4194304")));
        topics.add(topic("segments", 2, small));
        topics.add(topic("compacted", 1, compacts));
        topics.add(topic("compacted-transactions", 1, compacts));
        topics.add(topic("trimmed", 1, small));
        topics.add(topic("transactions", 2, Map.of("internal.segment.bytes", "4096")));
        topics.add(topic("empty", 1, Map.of()));
        topics.add(topic("aiokafka", 1, Map.of()));
        topics.add(topic("kafka-python", 1, Map.of()));
        try (Admin admin = admin()) {
            admin.createTopics(topics).all().get();
        }
    }

    private static NewTopic topic(String name, int partitions, Map<String, String> configs) {
        return new NewTopic(name, partitions, (short) 1).configs(configs);
    }

    private Admin admin() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return Admin.create(properties);
    }

    KafkaProducer<byte[], byte[]> producer(Map<String, String> changes) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("enable.idempotence", "false");
        // Batches end where we flush, or where they are full.
        properties.put("linger.ms", "60000");
        properties.putAll(changes);
        return new KafkaProducer<>(properties);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    byte[] noise(int size) {
        byte[] made = new byte[size];
        random.nextBytes(made);
        return made;
    }

    private void plain() throws Exception {
        try (var producer = producer(Map.of("acks", "1"))) {
            for (int round = 0; round < 4; round++) {
                for (int at = 0; at < 150; at++) {
                    manifest.send(producer, new ProducerRecord<>("plain", at % 3,
                        TIME_MS + 1_000L * round + at, bytes("key-" + at), noise(at)));
                }
                manifest.acknowledged(producer);
            }
        }
    }

    private void idempotent() throws Exception {
        for (int life = 0; life < 2; life++) { // Each life of a producer has an id of its own.
            try (var producer = producer(Map.of("enable.idempotence", "true"))) {
                for (int at = 0; at < 300; at++) {
                    manifest.send(producer, new ProducerRecord<>("idempotent", at % 2,
                        TIME_MS + at, bytes("key-" + at % 7), bytes("life " + life + " " + at)));
                    if (at % 60 == 59) {
                        manifest.acknowledged(producer);
                    }
                }
            }
        }
    }

    private void compressed(String codec) throws Exception {
        for (String topic : List.of("codec-" + codec, "recompressed")) {
            try (var producer = producer(
                    Map.of("compression.type", codec, "enable.idempotence", "true"))) {
                for (int at = 0; at < 200; at++) {
                    var record = new ProducerRecord<>(topic, 0, TIME_MS + at,
                        at % 5 == 4 ? null : bytes("key-" + at % 10),
                        at % 9 == 8 ? null : bytes("the same words again ".repeat(at % 12)));
                    if (at % 3 == 0) {
                        record.headers().add("trace", noise(8)).add("codec", bytes(codec));
                    }
                    manifest.send(producer, record);
                    if (at % 40 == 39) {
                        manifest.acknowledged(producer);
                    }
                }
            }
        }
    }

    private void headers() throws Exception {
        try (var producer = producer(Map.of())) {
            for (int at = 0; at < 60; at++) {
                var record = new ProducerRecord<>("headers", 0, TIME_MS, bytes("k"), bytes("v"));
                switch (at % 6) {
                    case 0 -> record.headers().add("null", null);
                    case 1 -> record.headers().add("twice", bytes("1")).add("twice", bytes("2"));
                    case 2 -> record.headers().add("", bytes("no key")).add("empty", new byte[0]);
                    case 3 -> record.headers().add("größe-尺寸-📏", noise(20));
                    case 4 -> {
                        for (int many = 0; many < 100; many++) {
                            record.headers().add("header-" + many, bytes("" + many));
                        }
                    }
                    default -> { } // None at all.
                }
                manifest.send(producer, record);
            }
            manifest.acknowledged(producer);
        }
    }

    private void nulls() throws Exception {
        byte[][] choices = {null, {}, {0}, bytes("bytes")};
        try (var producer = producer(Map.of())) {
            for (byte[] key : choices) {
                for (byte[] value : choices) {
                    manifest.send(producer,
                        new ProducerRecord<>("nulls", 0, TIME_MS, key, value));
                }
                manifest.acknowledged(producer);
            }
        }
    }

    private void times() throws Exception {
        long[] times = {TIME_MS, TIME_MS - 86_400_000, 0, TIME_MS + 1, 1, TIME_MS + 86_400_000};
        for (String topic : List.of("create-time", "append-time")) {
            for (String codec : List.of("none", "lz4")) {
                try (var producer = producer(Map.of("compression.type", codec))) {
                    for (int round = 0; round < 3; round++) {
                        for (long time : times) {
                            manifest.send(producer,
                                new ProducerRecord<>(topic, 0, time, null, bytes(codec)));
                        }
                        manifest.acknowledged(producer);
                    }
                }
            }
        }
    }

    private void large() throws Exception {
        for (String codec : List.of("none", "zstd")) {
            try (var producer = producer(
                    Map.of("compression.type", codec, "max.request.size", "4194304"))) {
                byte[] value = new byte[1_200_000];
                System.arraycopy(noise(100_000), 0, value, 500_000, 100_000);
                for (byte[] one : List.of(bytes("before"), value, bytes("after"))) {
                    manifest.send(producer,
                        new ProducerRecord<>("large", 0, TIME_MS, bytes(codec), one));
                    manifest.acknowledged(producer);
                }
            }
        }
    }

    private void segments() throws Exception {
        try (var producer = producer(Map.of("batch.size", "2048"))) {
            for (int at = 0; at < 1_200; at++) {
                manifest.send(producer, new ProducerRecord<>("segments", at % 2,
                    TIME_MS + at * 1_000L, bytes("key-" + at), noise(100)));
            }
            manifest.acknowledged(producer);
        }
    }

    private void compacted() throws Exception {
        for (String codec : List.of("none", "lz4")) {
            try (var producer = producer(Map.of(
                    "compression.type", codec, "enable.idempotence", "true"))) {
                for (int at = 0; at < 900; at++) {
                    boolean isTombstone = at % 31 == 30;
                    manifest.send(producer, new ProducerRecord<>("compacted", 0, TIME_MS + at,
                        bytes("key-" + random.nextInt(60)), isTombstone ? null : noise(40)));
                    if (at % 25 == 24) {
                        manifest.acknowledged(producer);
                    }
                }
            }
        }
    }

    private void trimmed() throws Exception {
        try (var producer = producer(Map.of("batch.size", "2048")); Admin admin = admin()) {
            for (int at = 0; at < 400; at++) {
                manifest.send(producer, new ProducerRecord<>("trimmed", 0,
                    TIME_MS + at, bytes("key-" + at), noise(150)));
            }
            manifest.acknowledged(producer);
            admin.deleteRecords(Map.of(new TopicPartition("trimmed", 0),
                RecordsToDelete.beforeOffset(250))).all().get();
        }
    }

    /** What a broker takes that is killed right after: some of it has never been synced. */
    private void more() throws Exception {
        for (String codec : CODECS) {
            try (var producer = producer(
                    Map.of("compression.type", codec, "enable.idempotence", "true"))) {
                for (int at = 0; at < 60; at++) {
                    for (String topic : List.of("plain", "segments", "codec-" + codec)) {
                        manifest.send(producer, new ProducerRecord<>(topic, 0,
                            TIME_MS + 5_000_000 + at, bytes("more-" + at), noise(60)));
                    }
                    if (at % 20 == 19) {
                        manifest.acknowledged(producer);
                    }
                }
            }
        }
    }
}

/** Transactions of every outcome, with records of others between them. */
final class Transactions {
    private final LogWriter writer;
    private final Manifest manifest;

    Transactions(LogWriter writer, Manifest manifest) {
        this.writer = writer;
        this.manifest = manifest;
    }

    void run() throws Exception {
        try (var others = writer.producer(Map.of("enable.idempotence", "true"));
                var one = begun("one", "none");
                var two = begun("two", "zstd")) {
            for (int round = 0; round < 12; round++) {
                one.beginTransaction();
                two.beginTransaction();
                fill("transactions", one, round, "one");
                fill("transactions", others, round, "others");
                manifest.decided(null);
                fill("transactions", two, round, "two");
                // Both are open now, and end in either order: with all four pairs of outcomes.
                if (round % 2 == 0) {
                    end(one, round % 4 == 0, "one " + round);
                    end(two, round % 3 != 0, "two " + round);
                } else {
                    end(two, round % 3 != 0, "two " + round);
                    end(one, round % 4 == 0, "one " + round);
                }
            }
            one.beginTransaction();
            end(one, true, "one without records");
            compacts(one);
            offsets(two);
        }
        fenced();
        open();
    }

    private KafkaProducer<byte[], byte[]> begun(String id, String codec) {
        var producer = writer.producer(Map.of("enable.idempotence", "true", "transactional.id", id,
            "compression.type", codec, "transaction.timeout.ms", "900000"));
        producer.initTransactions();
        return producer;
    }

    private void fill(String topic, KafkaProducer<byte[], byte[]> producer, int round, String who)
            throws Exception {
        for (int at = 0; at < 14; at++) {
            manifest.send(producer, new ProducerRecord<>(topic, at % 2,
                LogWriter.TIME_MS + round, LogWriter.bytes(who), writer.noise(60)), who);
        }
        manifest.acknowledged(producer);
    }

    private void end(KafkaProducer<byte[], byte[]> producer, boolean commits, String name)
            throws Exception {
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
        manifest.decided(commits ? "committed" : "aborted", name.split(" ")[0]);
    }

    /** Keys that several transactions write, in a topic of which the log cleaner keeps the last. */
    private void compacts(KafkaProducer<byte[], byte[]> producer) throws Exception {
        for (int round = 0; round < 24; round++) {
            producer.beginTransaction();
            for (int at = 0; at < 20; at++) {
                manifest.send(producer, new ProducerRecord<>("compacted-transactions", 0,
                    LogWriter.TIME_MS + round, LogWriter.bytes("key-" + at % 10),
                    LogWriter.bytes("round " + round + " " + at)), "one");
            }
            manifest.acknowledged(producer);
            end(producer, round % 3 != 2, "one");
        }
        // What is last in the log stays dirty, since it lies in the active segment.
        producer.beginTransaction();
        manifest.send(producer, new ProducerRecord<>("compacted-transactions", 0,
            LogWriter.TIME_MS + 99, LogWriter.bytes("last"), writer.noise(3_000)), "one");
        manifest.acknowledged(producer);
        end(producer, true, "one");
    }

    /** Offsets of a group, which the broker keeps in a log of its own. */
    private void offsets(KafkaProducer<byte[], byte[]> producer) throws Exception {
        producer.beginTransaction();
        manifest.send(producer, new ProducerRecord<>("transactions", 0, LogWriter.TIME_MS,
            LogWriter.bytes("two"), LogWriter.bytes("with offsets")), "two");
        producer.sendOffsetsToTransaction(
            Map.of(new TopicPartition("plain", 0), new OffsetAndMetadata(17, "read")),
            new ConsumerGroupMetadata("readers"));
        manifest.acknowledged(producer);
        end(producer, true, "two");
    }

    /** A producer whose transaction the coordinator aborts, because another has taken its id. */
    private void fenced() throws Exception {
        var first = begun("fenced", "none");
        first.beginTransaction();
        fill("transactions", first, 50, "fenced");
        try (var second = begun("fenced", "none")) {
            manifest.decided("aborted", "fenced");
            second.beginTransaction();
            fill("transactions", second, 51, "fenced");
            end(second, true, "fenced");
        }
    }

    /** One that nobody ends, and one after it in the same partition that is committed. */
    private void open() throws Exception {
        var open = begun("open", "none");
        open.beginTransaction();
        for (int at = 0; at < 10; at++) {
            manifest.send(open, new ProducerRecord<>("transactions", 1, LogWriter.TIME_MS,
                LogWriter.bytes("open"), LogWriter.bytes("open " + at)), "open");
        }
        manifest.acknowledged(open);
        manifest.decided("open", "open");
        try (var after = begun("after", "none")) {
            after.beginTransaction();
            fill("transactions", after, 60, "after");
            end(after, true, "after");
        }
    }
}

/** What was sent and acknowledged, a line of JSON a record, in the order of sending. */
final class Manifest implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();

    private record Sent(ProducerRecord<byte[], byte[]> record, Future<RecordMetadata> acknowledged,
        String who) { }

    private final BufferedWriter out;
    private final List<Sent> sent = new ArrayList<>();
    private final List<Map<String, Object>> undecided = new ArrayList<>();

    Manifest(Path path) throws IOException {
        out = Files.newBufferedWriter(path);
    }

    void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) {
        send(producer, record, null);
    }

    /** Send, for a transaction of {@code who}; its outcome is told by {@code decided}. */
    void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record,
            String who) {
        sent.add(new Sent(record, producer.send(record), who));
    }

    /** Flush, and take the broker's word for what was sent: an error is thrown. */
    void acknowledged(KafkaProducer<byte[], byte[]> producer) throws Exception {
        producer.flush();
        for (Sent one : sent) {
            Map<String, Object> line = line(one);
            if (one.who() == null) {
                write(line);
            } else {
                undecided.add(line);
            }
        }
        sent.clear();
    }

    /** Say how the transactions of {@code who} ended; "others" have none. */
    void decided(String outcome, String who) throws IOException {
        for (var lines = undecided.iterator(); lines.hasNext();) {
            Map<String, Object> line = lines.next();
            if (line.get("who").equals(who)) {
                line.put("transaction", outcome);
                write(line);
                lines.remove();
            }
        }
    }

    void decided(String outcome) throws IOException {
        decided(outcome, "others");
    }

    private static Map<String, Object> line(Sent one) throws Exception {
        RecordMetadata metadata = one.acknowledged().get();
        ProducerRecord<byte[], byte[]> record = one.record();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("topic", metadata.topic());
        line.put("partition", metadata.partition());
        line.put("offset", metadata.offset());
        line.put("timestamp", metadata.timestamp());
        line.put("key", base64(record.key()));
        line.put("value", base64(record.value()));
        List<List<String>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(base64(header.value()));
            headers.add(pair);
        }
        line.put("headers", headers);
        line.put("transaction", null);
        if (one.who() != null) {
            line.put("who", one.who());
        }
        return line;
    }

    private static String base64(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    private void write(Map<String, Object> line) throws IOException {
        line.remove("who");
        out.write(JSON.writeValueAsString(line));
        out.newLine();
    }

    @Override
    public void close() throws IOException {
        if (!sent.isEmpty() || !undecided.isEmpty()) {
            throw new IllegalStateException("the manifest lacks what was sent last");
        }
        out.close();
    }
}
