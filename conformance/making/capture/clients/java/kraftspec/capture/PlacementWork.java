package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;
import static kraftspec.capture.Workload.eventually;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;

/** Where partitions are: reassigned, led by others, moved between log directories. */
final class PlacementWork {
    private static final String TOPIC = "java-placement";

    private PlacementWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("placement"))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, Map.of(
                0, List.of(1), 1, List.of(2), 2, List.of(1))))).all().get();
            reassign(admin);
            elect(admin);
            directories(admin);
            attempt(() -> admin.unregisterBroker(77).all());
        }
    }

    private static Optional<NewPartitionReassignment> to(Integer... brokers) {
        return Optional.of(new NewPartitionReassignment(List.of(brokers)));
    }

    private static void reassign(Admin admin) throws Exception {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        TopicPartition second = new TopicPartition(TOPIC, 1);
        admin.alterPartitionReassignments(Map.of(
            first, to(2, 1), second, to(1, 2))).all().get();
        admin.listPartitionReassignments().reassignments().get();
        admin.listPartitionReassignments(Set.of(first, second)).reassignments().get();
        attempt(() -> admin.alterPartitionReassignments(Map.of(second, Optional.empty())).all());
        attempt(() -> admin.alterPartitionReassignments(Map.of(
            first, to(1, 9), new TopicPartition("java-absent", 0), to(1))).all());
        eventually("no reassignment is left",
            () -> admin.listPartitionReassignments().reassignments().get().isEmpty());
        admin.alterPartitionReassignments(Map.of(second, to(1))).all().get();
        eventually("no reassignment is left",
            () -> admin.listPartitionReassignments().reassignments().get().isEmpty());
    }

    private static void elect(Admin admin) throws Exception {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        attempt(() -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).all());
        attempt(() -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).all());
        attempt(() -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(first)).all());
        attempt(() -> admin.electLeaders(ElectionType.PREFERRED, null).all());
        attempt(() -> admin.electLeaders(ElectionType.PREFERRED,
            Set.of(new TopicPartition("java-absent", 3))).all());
    }

    private static void directories(Admin admin) throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 2, 1);
        Map<Integer, List<String>> names = new HashMap<>();
        admin.describeLogDirs(List.of(1, 2)).allDescriptions().get().forEach(
            (broker, found) -> names.put(broker, found.keySet().stream().sorted().toList()));
        String current = admin.describeReplicaLogDirs(List.of(replica)).all().get()
            .get(replica).getCurrentReplicaLogDir();
        for (String other : names.get(1)) {
            if (!other.equals(current)) {
                admin.alterReplicaLogDirs(Map.of(replica, other)).all().get();
                eventually("the replica has moved", () -> other.equals(
                    admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica)
                        .getCurrentReplicaLogDir()));
            }
        }
        attempt(() -> admin.alterReplicaLogDirs(Map.of(
            replica, "/no-such-directory",
            new TopicPartitionReplica("java-absent", 0, 1), current)).all());
    }
}
