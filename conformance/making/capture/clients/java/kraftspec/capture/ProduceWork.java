package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records of every compression and acknowledgement, with and without keys, values and headers. */
final class ProduceWork {
    static final String TOPIC = "java-records";

    private ProduceWork() {}

    static Properties producer(Workload.Cluster cluster, String clientId) {
        Properties properties = cluster.properties(clientId);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("linger.ms", "5");
        return properties;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void run(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("produce-admin"))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 3, (short) -1))).all().get();
            for (String acks : List.of("0", "1", "all")) {
                for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                    send(cluster, acks, compression);
                }
            }
            refused(cluster, admin);
            TopicPartition first = new TopicPartition(TOPIC, 0);
            attempt(() -> admin.deleteRecords(Map.of(
                first, RecordsToDelete.beforeOffset(1))).all());
            admin.describeProducers(List.of(first)).all().get();
        }
    }

    private static void send(Workload.Cluster cluster, String acks, String compression)
            throws Exception {
        Properties properties = producer(cluster, "produce-" + acks + "-" + compression);
        properties.put("acks", acks);
        properties.put("compression.type", compression);
        properties.put("enable.idempotence", String.valueOf(acks.equals("all")));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (int partition = 0; partition < 3; partition++) {
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    TOPIC, partition, 1_700_000_000_000L, bytes("key"), bytes("value"));
                record.headers().add("header", bytes("one")).add("empty", null);
                producer.send(record);
                producer.send(new ProducerRecord<>(TOPIC, partition, null, bytes("value")));
                producer.send(new ProducerRecord<>(TOPIC, partition, bytes("key"), null));
                producer.send(new ProducerRecord<>(TOPIC, partition, new byte[0], new byte[0]));
                producer.flush();
            }
            for (int number = 0; number < 20; number++) {
                producer.send(new ProducerRecord<>(TOPIC, bytes("k" + number),
                    bytes("value ".repeat(number))));
            }
            producer.flush();
            producer.partitionsFor(TOPIC);
        }
    }

    /** A record in a topic of too small batches, and one to a topic that is not there. */
    private static void refused(Workload.Cluster cluster, Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic("java-small", 1, (short) 1)
            .configs(Map.of("max.message.bytes", "200")))).all().get();
        Properties properties = producer(cluster, "produce-refused");
        properties.put("max.block.ms", "2000");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (String topic : List.of("java-small", "java not a topic")) {
                try {
                    producer.send(new ProducerRecord<>(topic, new byte[1000])).get();
                    throw new IllegalStateException(topic + " took what it must refuse");
                } catch (java.util.concurrent.ExecutionException expected) {
                    // The broker's answer is what this is about.
                }
            }
        }
    }
}
