package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;
import static kraftspec.capture.Workload.eventually;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Share groups: records accepted, released, rejected; described, moved and deleted. */
final class ShareWork {
    private static final String TOPIC = "java-shared";
    private static final AcknowledgeType[] ANSWERS = {
        AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT,
    };

    private ShareWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        ConsumeWork.fill(cluster, TOPIC, 2);
        try (Admin admin = Admin.create(cluster.properties("share-admin"))) {
            for (String group : List.of("java-share-explicit", "java-share-implicit")) {
                admin.incrementalAlterConfigs(Map.of(
                    new ConfigResource(ConfigResource.Type.GROUP, group),
                    List.of(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset",
                        "earliest"), AlterConfigOp.OpType.SET)))).all().get();
            }
            explicit(cluster, admin);
            implicit(cluster);
            administer(admin);
        }
    }

    private static KafkaShareConsumer<byte[], byte[]> member(
            Workload.Cluster cluster, String mode) {
        Properties properties =
            ConsumeWork.consumer(cluster, "share-" + mode, "java-share-" + mode);
        properties.remove("auto.offset.reset");
        properties.put("share.acknowledgement.mode", mode);
        properties.put("max.poll.records", "7");
        KafkaShareConsumer<byte[], byte[]> member = new KafkaShareConsumer<>(properties);
        member.subscribe(List.of(TOPIC));
        return member;
    }

    private static void explicit(Workload.Cluster cluster, Admin admin) throws Exception {
        try (KafkaShareConsumer<byte[], byte[]> member = member(cluster, "explicit")) {
            int[] seen = {0};
            eventually("twenty deliveries have been answered", () -> {
                ConsumerRecords<byte[], byte[]> records = member.poll(Duration.ofMillis(300));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    member.acknowledge(record, ANSWERS[seen[0]++ % ANSWERS.length]);
                }
                if (seen[0] % 2 == 0) {
                    member.commitSync();
                } else {
                    member.commitAsync();
                }
                return seen[0] >= 20;
            });
            attempt(() -> admin.describeShareGroups(
                List.of("java-share-explicit", "java-absent")).all());
        }
    }

    private static void implicit(Workload.Cluster cluster) throws Exception {
        try (KafkaShareConsumer<byte[], byte[]> one = member(cluster, "implicit");
                KafkaShareConsumer<byte[], byte[]> other = member(cluster, "implicit")) {
            int[] seen = {0};
            eventually("twenty records were delivered", () -> {
                seen[0] += one.poll(Duration.ofMillis(300)).count();
                seen[0] += other.poll(Duration.ofMillis(300)).count();
                return seen[0] >= 20;
            });
        }
    }

    private static void administer(Admin admin) throws Exception {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        Map<String, ListShareGroupOffsetsSpec> specs = new HashMap<>();
        specs.put("java-share-explicit", new ListShareGroupOffsetsSpec());
        specs.put("java-share-implicit", new ListShareGroupOffsetsSpec()
            .topicPartitions(List.of(first)));
        specs.put("java-absent", new ListShareGroupOffsetsSpec());
        attempt(() -> admin.listShareGroupOffsets(specs).all());
        attempt(() -> admin.alterShareGroupOffsets("java-share-explicit", Map.of(first, 3L)).all());
        attempt(() -> admin.alterShareGroupOffsets("java-share-explicit",
            Map.of(new TopicPartition("java-absent", 0), 3L)).all());
        attempt(() -> admin.deleteShareGroupOffsets(
            "java-share-explicit", Set.of(TOPIC, "java-absent")).all());
        attempt(() -> admin.deleteShareGroups(
            List.of("java-share-implicit", "java-absent")).all());
    }
}
