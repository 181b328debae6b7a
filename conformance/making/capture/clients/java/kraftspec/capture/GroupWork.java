package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;
import static kraftspec.capture.Workload.eventually;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClassicGroupsOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/** Groups as an administrator sees them, with members and without; their offsets. */
final class GroupWork {
    private static final String TOPIC = "java-grouped";

    private GroupWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        ConsumeWork.fill(cluster, TOPIC, 3);
        try (Admin admin = Admin.create(cluster.properties("groups-admin"))) {
            List<KafkaConsumer<byte[], byte[]>> members = new ArrayList<>();
            try {
                for (String protocol : List.of("classic", "consumer")) {
                    members.add(member(cluster, protocol));
                }
                describe(admin);
                offsets(admin);
                attempt(() -> admin.removeMembersFromConsumerGroup("java-grouped-classic",
                    new RemoveMembersFromConsumerGroupOptions(Set.of(
                        new MemberToRemove("instance-classic"), new MemberToRemove("nobody"))))
                    .all());
                attempt(() -> admin.removeMembersFromConsumerGroup("java-grouped-consumer",
                    new RemoveMembersFromConsumerGroupOptions()).all());
            } finally {
                members.forEach(KafkaConsumer::close);
            }
            alter(admin);
        }
    }

    private static KafkaConsumer<byte[], byte[]> member(Workload.Cluster cluster, String protocol)
            throws Exception {
        Properties properties =
            ConsumeWork.consumer(cluster, "groups-" + protocol, "java-grouped-" + protocol);
        properties.put("group.protocol", protocol);
        properties.put("group.instance.id", "instance-" + protocol);
        KafkaConsumer<byte[], byte[]> member = new KafkaConsumer<>(properties);
        member.subscribe(List.of(TOPIC));
        eventually("the member has all", () -> {
            member.poll(Duration.ofMillis(200));
            return member.assignment().size() == 3;
        });
        member.commitSync();
        return member;
    }

    private static void describe(Admin admin) throws Exception {
        admin.listGroups().all().get();
        admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))
            .inGroupStates(Set.of(GroupState.STABLE, GroupState.EMPTY))).all().get();
        admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get();
        admin.listGroups(ListGroupsOptions.forShareGroups()).all().get();
        List<String> groups =
            List.of("java-grouped-classic", "java-grouped-consumer", "java-absent");
        attempt(() -> admin.describeConsumerGroups(groups,
            new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all());
        attempt(() -> admin.describeConsumerGroups(List.of("java-grouped-consumer")).all());
        attempt(() -> admin.describeClassicGroups(groups,
            new DescribeClassicGroupsOptions().includeAuthorizedOperations(true)).all());
        attempt(() -> admin.describeShareGroups(groups).all());
        attempt(() -> admin.describeStreamsGroups(groups).all());
    }

    private static void offsets(Admin admin) throws Exception {
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        specs.put("java-grouped-classic", new ListConsumerGroupOffsetsSpec());
        specs.put("java-grouped-consumer", new ListConsumerGroupOffsetsSpec()
            .topicPartitions(List.of(new TopicPartition(TOPIC, 0))));
        specs.put("java-absent", new ListConsumerGroupOffsetsSpec());
        attempt(() -> admin.listConsumerGroupOffsets(specs,
            new ListConsumerGroupOffsetsOptions().requireStable(true)).all());
        attempt(() -> admin.listConsumerGroupOffsets("java-grouped-classic")
            .partitionsToOffsetAndMetadata());
        TopicPartition first = new TopicPartition(TOPIC, 0);
        TopicPartition second = new TopicPartition(TOPIC, 1);
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(),
                OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(1), OffsetSpec.earliestLocal(),
                OffsetSpec.latestTiered())) {
            attempt(() -> admin.listOffsets(Map.of(first, spec, second, spec),
                new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all());
        }
        attempt(() -> admin.listOffsets(Map.of(
            new TopicPartition("java-absent", 0), OffsetSpec.latest()),
            new ListOffsetsOptions().timeoutMs(100)).all());
        attempt(() -> admin.deleteConsumerGroupOffsets(
            "java-grouped-classic", Set.of(first)).all());
        attempt(() -> admin.deleteConsumerGroups(List.of("java-grouped-consumer")).all());
    }

    private static void alter(Admin admin) throws Exception {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        attempt(() -> admin.alterConsumerGroupOffsets("java-grouped-classic",
            Map.of(first, new OffsetAndMetadata(2, "set by hand"))).all());
        attempt(() -> admin.alterConsumerGroupOffsets("java-made-by-offsets",
            Map.of(first, new OffsetAndMetadata(1))).all());
        attempt(() -> admin.deleteConsumerGroupOffsets(
            "java-grouped-classic", Set.of(first)).all());
        attempt(() -> admin.deleteConsumerGroupOffsets("java-absent", Set.of(first)).all());
        attempt(() -> admin.deleteConsumerGroups(
            List.of("java-grouped-classic", "java-made-by-offsets", "java-absent")).all());
    }
}
