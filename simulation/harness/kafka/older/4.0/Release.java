package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.metrics.Metrics;

/** What the releases of Kafka have in different ways, or not at all: 4.0 has no upgrade. */
final class Release {
    private Release() { }

    static List<String> capabilities() {
        return List.of("pre_vote", "dynamic_voters", "snapshots", "disk_faults", "lock_step");
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
        throw new UnsupportedVersionException("this release cannot raise kraft.version");
    }
}
