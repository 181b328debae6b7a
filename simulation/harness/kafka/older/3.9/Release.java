package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.metrics.Metrics;

/** What releases of Kafka have in different ways, or not at all: 3.9 has no pre-votes either. */
final class Release {
    private Release() { }

    static List<String> capabilities() {
        return List.of("dynamic_voters", "snapshots", "disk_faults", "lock_step");
    }

    static void initialize(KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters,
                           QuorumStateStore store, Metrics metrics) {
        client.initialize(voters, store, metrics);
    }

    static boolean isProspective(QuorumState quorum) {
        return false;
    }

    /** For whom the replica has voted; null: nobody. Only the file has it, in each of its roles. */
    static ReplicaKey voted(QuorumState quorum, Disk disk) {
        return disk.election == null ? null
            : disk.election.state().optionalVotedKey().orElse(null);
    }

    static void upgrade(KafkaRaftClient<?> client, int epoch, short level) {
        throw new UnsupportedVersionException("this release cannot raise kraft.version");
    }
}
