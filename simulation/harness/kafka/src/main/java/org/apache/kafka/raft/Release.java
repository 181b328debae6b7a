package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.server.common.KRaftVersion;

/** What the releases of Kafka have in different ways, or not at all. */
final class Release {
    private static final List<String> CAPABILITIES = List.of(
        "pre_vote", "dynamic_voters", "snapshots", "upgrade", "auto_join", "disk_faults",
        "lock_step");

    private Release() { }

    static List<String> capabilities() {
        return CAPABILITIES.stream()
            .filter(name -> !name.equals("auto_join")
                || QuorumConfig.CONFIG_DEF.names().contains("controller.quorum.auto.join.enable"))
            .toList();
    }

    static void initialize(KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters,
                           QuorumStateStore store, Metrics metrics) {
        client.initialize(voters, store, metrics, ignoresMigration -> { });
    }

    static boolean isProspective(QuorumState quorum) {
        return quorum.isProspective();
    }

    /** For whom the replica has voted; null: nobody. */
    static ReplicaKey voted(QuorumState quorum, Disk disk) {
        return quorum.votedKey().orElse(null);
    }

    static void upgrade(KafkaRaftClient<?> client, int epoch, short level) {
        client.upgradeKRaftVersion(epoch, KRaftVersion.fromFeatureLevel(level), false);
    }
}
