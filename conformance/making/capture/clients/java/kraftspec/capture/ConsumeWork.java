package kraftspec.capture;

import static kraftspec.capture.Workload.eventually;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumers of the classic and of the new group protocol, and ones without a group. */
final class ConsumeWork {
    static final String TOPIC = "java-consumed";
    private static final Duration POLL = Duration.ofMillis(200);

    private ConsumeWork() {}

    static Properties consumer(Workload.Cluster cluster, String clientId, String group) {
        Properties properties = cluster.properties(clientId);
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("auto.offset.reset", "earliest");
        properties.put("fetch.max.wait.ms", "200");
        if (group != null) {
            properties.put("group.id", group);
        }
        return properties;
    }

    static void fill(Workload.Cluster cluster, String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("fill"))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) -1))).all().get();
        }
        Properties properties = ProduceWork.producer(cluster, "fill");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (int number = 0; number < 40; number++) {
                producer.send(new ProducerRecord<>(topic, number % partitions,
                    ProduceWork.bytes("key " + number), ProduceWork.bytes("value " + number)));
            }
        }
    }

    static void run(Workload.Cluster cluster) throws Exception {
        fill(cluster, TOPIC, 4);
        alone(cluster);
        for (String protocol : List.of("classic", "consumer")) {
            for (String isolation : List.of("read_uncommitted", "read_committed")) {
                pair(cluster, protocol, isolation);
            }
            constant(cluster, protocol);
        }
        pattern(cluster);
    }

    private static void alone(Workload.Cluster cluster) {
        Properties properties = consumer(cluster, "consume-alone", null);
        properties.put("client.rack", "rack-1");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            List<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(TOPIC).forEach(
                one -> all.add(new TopicPartition(TOPIC, one.partition())));
            consumer.listTopics();
            consumer.assign(all);
            consumer.beginningOffsets(all);
            consumer.endOffsets(all);
            consumer.offsetsForTimes(Map.of(all.get(0), 1L, all.get(1), Long.MAX_VALUE));
            consumer.poll(POLL);
            consumer.pause(all.subList(0, 2));
            consumer.seekToEnd(all.subList(2, 3));
            consumer.seek(all.get(3), new OffsetAndMetadata(2));
            consumer.poll(POLL);
            consumer.seek(all.get(3), 1_000_000);
            consumer.poll(POLL);
            consumer.poll(POLL);
        }
    }

    /** Two members: one joins, the other makes it share, then leaves. */
    private static void pair(Workload.Cluster cluster, String protocol, String isolation)
            throws Exception {
        String group = "java-" + protocol + "-" + isolation;
        List<KafkaConsumer<byte[], byte[]>> members = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            Properties properties = consumer(cluster, "consume-" + protocol + number, group);
            properties.put("group.protocol", protocol);
            properties.put("isolation.level", isolation);
            properties.put("enable.auto.commit", String.valueOf(number == 1));
            if (protocol.equals("classic")) {
                properties.put("partition.assignment.strategy",
                    isolation.equals("read_committed")
                        ? CooperativeStickyAssignor.class.getName()
                        : RangeAssignor.class.getName());
                properties.put("heartbeat.interval.ms", "300");
                properties.put("session.timeout.ms", "10000");
            } else if (number == 1) {
                properties.put("group.remote.assignor", "range");
            }
            members.add(new KafkaConsumer<>(properties));
        }
        try {
            KafkaConsumer<byte[], byte[]> first = members.get(0);
            KafkaConsumer<byte[], byte[]> second = members.get(1);
            first.subscribe(List.of(TOPIC));
            eventually("the first member has all", () -> {
                first.poll(POLL);
                return first.assignment().size() == 4;
            });
            first.commitSync();
            first.commitAsync();
            second.subscribe(List.of(TOPIC, "java-absent"));
            eventually("both members have some", () -> {
                first.poll(POLL);
                second.poll(POLL);
                return first.assignment().size() == 2 && second.assignment().size() == 2;
            });
            TopicPartition own = first.assignment().iterator().next();
            first.commitSync(Map.of(own, new OffsetAndMetadata(3, "three are done")));
            first.committed(Set.of(own));
            first.committed(Set.of(new TopicPartition(TOPIC, 0), new TopicPartition(TOPIC, 1)));
            first.position(own);
            first.enforceRebalance("to see it happen");
            first.poll(POLL);
            second.poll(POLL);
        } finally {
            members.forEach(close());
        }
    }

    private static Consumer<KafkaConsumer<byte[], byte[]>> close() {
        return member -> member.close();
    }

    /** A static member that goes and comes back, and one that takes its place. */
    private static void constant(Workload.Cluster cluster, String protocol) throws Exception {
        for (int time = 0; time < 2; time++) {
            Properties properties =
                consumer(cluster, "consume-static", "java-static-" + protocol);
            properties.put("group.protocol", protocol);
            properties.put("group.instance.id", "instance-1");
            properties.put("client.rack", "rack-1");
            try (KafkaConsumer<byte[], byte[]> member = new KafkaConsumer<>(properties)) {
                member.subscribe(List.of(TOPIC));
                eventually("the static member has all", () -> {
                    member.poll(POLL);
                    return member.assignment().size() == 4;
                });
            }
        }
    }

    private static void pattern(Workload.Cluster cluster) throws Exception {
        for (String protocol : List.of("classic", "consumer")) {
            Properties properties =
                consumer(cluster, "consume-pattern", "java-pattern-" + protocol);
            properties.put("group.protocol", protocol);
            try (KafkaConsumer<byte[], byte[]> member = new KafkaConsumer<>(properties)) {
                if (protocol.equals("consumer")) {
                    member.subscribe(new SubscriptionPattern("java-cons.*"));
                } else {
                    member.subscribe(Pattern.compile("java-cons.*"));
                }
                eventually("the pattern's member has all", () -> {
                    member.poll(POLL);
                    return member.assignment().size() >= 4;
                });
            }
        }
    }
}
