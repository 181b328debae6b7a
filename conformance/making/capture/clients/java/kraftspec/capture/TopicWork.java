package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/** Topics: made, listed, described, widened, emptied, deleted; and what is refused about them. */
final class TopicWork {
    private TopicWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("topics"))) {
            create(admin);
            describe(admin);
            widen(admin);
            delete(admin);
        }
    }

    private static void create(Admin admin) throws Exception {
        CreateTopicsOptions dry = new CreateTopicsOptions().validateOnly(true);
        NewTopic plain = new NewTopic("java-plain", Optional.empty(), Optional.empty());
        attempt(() -> admin.createTopics(List.of(plain), dry).all());
        admin.createTopics(List.of(plain)).all().get();
        attempt(() -> admin.createTopics(List.of(plain)).all());
        admin.createTopics(List.of(
            new NewTopic("java-wide", 5, (short) 2),
            new NewTopic("java-placed", Map.of(0, List.of(1, 2), 1, List.of(2, 1))),
            new NewTopic("java-compacted", 1, (short) 1).configs(Map.of(
                "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.2")))).all().get();
        attempt(() -> admin.createTopics(List.of(
            new NewTopic("java-replicated", 1, (short) 9),
            new NewTopic("java bad name", 1, (short) 1),
            new NewTopic("java-bad-config", 1, (short) 1).configs(Map.of("no.such", "thing")),
            new NewTopic("java-bad-place", Map.of(0, List.of(1, 9))),
            new NewTopic("java-no-partitions", 0, (short) 1))).all());
        StringBuilder longest = new StringBuilder("java-");
        while (longest.length() < 249) {
            longest.append('x');
        }
        admin.createTopics(List.of(
            new NewTopic(longest.toString(), 1, (short) 1))).all().get();
    }

    private static void describe(Admin admin) throws Exception {
        admin.listTopics().names().get();
        admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get();
        admin.describeTopics(List.of("java-plain", "java-wide")).allTopicNames().get();
        admin.describeTopics(List.of("java-wide"), new DescribeTopicsOptions()
            .includeAuthorizedOperations(true).partitionSizeLimitPerResponse(2))
            .allTopicNames().get();
        Uuid id = admin.describeTopics(List.of("java-placed"))
            .allTopicNames().get().get("java-placed").topicId();
        admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get();
        attempt(() -> admin.describeTopics(List.of("java-absent")).allTopicNames());
        attempt(() -> admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).allTopicIds());
        admin.describeCluster().nodes().get();
        admin.describeCluster(new DescribeClusterOptions()
            .includeAuthorizedOperations(true).includeFencedBrokers(true)).nodes().get();
    }

    private static void widen(Admin admin) throws Exception {
        CreatePartitionsOptions dry = new CreatePartitionsOptions().validateOnly(true);
        Map<String, NewPartitions> wider = Map.of("java-plain", NewPartitions.increaseTo(3));
        attempt(() -> admin.createPartitions(wider, dry).all());
        admin.createPartitions(wider).all().get();
        attempt(() -> admin.createPartitions(Map.of(
            "java-plain", NewPartitions.increaseTo(2),
            "java-absent", NewPartitions.increaseTo(2))).all());
        admin.createPartitions(Map.of("java-placed",
            NewPartitions.increaseTo(3, List.of(List.of(2, 1))))).all().get();
    }

    private static void delete(Admin admin) throws Exception {
        attempt(() -> admin.deleteRecords(Map.of(
            new TopicPartition("java-plain", 0), RecordsToDelete.beforeOffset(0),
            new TopicPartition("java-plain", 1), RecordsToDelete.beforeOffset(7))).all());
        admin.deleteTopics(Set.of("java-compacted")).all().get();
        Uuid id = admin.describeTopics(List.of("java-placed"))
            .allTopicNames().get().get("java-placed").topicId();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        attempt(() -> admin.deleteTopics(Set.of("java-absent")).all());
    }
}
