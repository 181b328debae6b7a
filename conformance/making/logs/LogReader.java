import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads every partition with Apache Kafka's own consumer, at both isolation levels. Run as
 * BOOTSTRAP DIRECTORY; writes DIRECTORY/{read_uncommitted,read_committed}.jsonl, a line a record,
 * and DIRECTORY/partitions.jsonl, what the broker says of each partition and its producers.
 */
final class LogReader {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(200);

    private LogReader() {}

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[1]);
        List<TopicPartition> partitions = new ArrayList<>();
        List<Map<String, Long>> ends = new ArrayList<>();
        try (Admin admin = Admin.create(properties(arguments[0], "read_uncommitted"))) {
            var names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            var topics = new TreeMap<>(admin.describeTopics(names).allTopicNames().get());
            topics.forEach((name, topic) -> topic.partitions().forEach(
                one -> partitions.add(new TopicPartition(name, one.partition()))));
            for (String isolation : List.of("read_uncommitted", "read_committed")) {
                ends.add(read(arguments[0], isolation, partitions, directory));
            }
            describe(admin, partitions, ends, directory);
        }
    }

    private static Properties properties(String bootstrap, String isolation) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation);
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("auto.offset.reset", "none");
        properties.put("fetch.max.wait.ms", "5"); // Each partition is read to its end by itself.
        return properties;
    }

    /** Read all there is, and return where each partition begins and ends at this isolation. */
    private static Map<String, Long> read(String bootstrap, String isolation,
            List<TopicPartition> partitions, Path directory) throws Exception {
        Map<String, Long> bounds = new LinkedHashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(properties(bootstrap, isolation));
                BufferedWriter out = Files.newBufferedWriter(
                    directory.resolve(isolation + ".jsonl"))) {
            Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            for (TopicPartition partition : partitions) {
                bounds.put("start " + partition, starts.get(partition));
                bounds.put("end " + partition, ends.get(partition));
                consumer.assign(List.of(partition));
                consumer.seek(partition, starts.get(partition));
                while (consumer.position(partition) < ends.get(partition)) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                        out.write(JSON.writeValueAsString(line(record)));
                        out.newLine();
                    }
                }
            }
        }
        return bounds;
    }

    private static Map<String, Object> line(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("topic", record.topic());
        line.put("partition", record.partition());
        line.put("offset", record.offset());
        line.put("timestamp", record.timestamp());
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
        line.put("timestampType", record.timestampType().toString().toLowerCase(Locale.ROOT));
        line.put("leaderEpoch", record.leaderEpoch().orElse(-1));
        return line;
    }

    private static String base64(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    private static void describe(Admin admin, List<TopicPartition> partitions,
            List<Map<String, Long>> bounds, Path directory) throws Exception {
        var states = admin.describeProducers(partitions).all().get();
        try (BufferedWriter out = Files.newBufferedWriter(directory.resolve("partitions.jsonl"))) {
            for (TopicPartition partition : partitions) {
                Map<String, Object> line = new LinkedHashMap<>();
                line.put("topic", partition.topic());
                line.put("partition", partition.partition());
                line.put("startOffset", bounds.get(0).get("start " + partition));
                line.put("endOffset", bounds.get(0).get("end " + partition));
                line.put("lastStableOffset", bounds.get(1).get("end " + partition));
                List<Map<String, Object>> producers = new ArrayList<>();
                for (ProducerState state : states.get(partition).activeProducers()) {
                    Map<String, Object> producer = new LinkedHashMap<>();
                    producer.put("producerId", state.producerId());
                    producer.put("producerEpoch", state.producerEpoch());
                    producer.put("lastSequence", state.lastSequence());
                    var start = state.currentTransactionStartOffset();
                    producer.put("transactionStartOffset",
                        start.isPresent() ? start.getAsLong() : null);
                    producers.add(producer);
                }
                line.put("producers", producers);
                out.write(JSON.writeValueAsString(line));
                out.newLine();
            }
        }
    }
}
