package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;

/** How a node is configured: the fields of {@code define}, in their order. */
record NodeSettings(
        Uuid directoryId, String clusterId, int portBase, boolean canBecomeVoter, boolean autoJoin,
        List<Integer> staticVoters, List<Integer> bootstrapServers, long electionTimeoutUs,
        long fetchTimeoutUs, long electionBackoffMaxUs, long requestTimeoutUs, long retryBackoffUs,
        long appendLingerUs, int fetchMaxBytes, int fetchSnapshotMaxBytes, long retentionBytes) {
    /** What KafkaRaftClient is given; a release passes over the keys that it does not have. */
    QuorumConfig quorumConfig() {
        Map<String, Object> values = new HashMap<>();
        values.put("controller.quorum.election.timeout.ms", milliseconds(electionTimeoutUs));
        values.put("controller.quorum.fetch.timeout.ms", milliseconds(fetchTimeoutUs));
        values.put("controller.quorum.election.backoff.max.ms", milliseconds(electionBackoffMaxUs));
        values.put("controller.quorum.request.timeout.ms", milliseconds(requestTimeoutUs));
        values.put("controller.quorum.retry.backoff.ms", milliseconds(retryBackoffUs));
        values.put("controller.quorum.append.linger.ms", milliseconds(appendLingerUs));
        values.put("controller.quorum.fetch.max.bytes", fetchMaxBytes);
        values.put("controller.quorum.fetch.snapshot.max.bytes", fetchSnapshotMaxBytes);
        values.put("controller.quorum.auto.join.enable", autoJoin);
        return new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, values, false));
    }

    /** Kafka's times are whole milliseconds; none becomes shorter. */
    static int milliseconds(long us) {
        return (int) Math.min(Integer.MAX_VALUE, -Math.floorDiv(-us, 1000L));
    }

    InetSocketAddress address(int nodeId) {
        return InetSocketAddress.createUnresolved("localhost", portBase + nodeId);
    }

    Map<Integer, InetSocketAddress> staticVoterAddresses() {
        Map<Integer, InetSocketAddress> addresses = new TreeMap<>();
        staticVoters.forEach(id -> addresses.put(id, address(id)));
        return addresses;
    }
}
