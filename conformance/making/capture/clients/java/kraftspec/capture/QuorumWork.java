package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;

import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.AddRaftVoterOptions;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.RemoveRaftVoterOptions;
import org.apache.kafka.common.Uuid;

/** The quorum, asked through brokers and at its controllers; changes that are refused. */
final class QuorumWork {
    private QuorumWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("quorum"))) {
            ask(admin);
        }
        Properties direct = cluster.properties("quorum-direct");
        direct.remove("bootstrap.servers");
        direct.put("bootstrap.controllers", cluster.controllers());
        try (Admin admin = Admin.create(direct)) {
            ask(admin);
            admin.describeCluster(new DescribeClusterOptions()).nodes().get();
        }
    }

    private static void ask(Admin admin) throws Exception {
        admin.describeMetadataQuorum().quorumInfo().get();
        RaftVoterEndpoint endpoint = new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9);
        attempt(() -> admin.addRaftVoter(3001, Uuid.randomUuid(), Set.of(endpoint)).all());
        attempt(() -> admin.addRaftVoter(3009, Uuid.randomUuid(), Set.of(
            new RaftVoterEndpoint("OTHER", "127.0.0.1", 9)),
            new AddRaftVoterOptions().setClusterId(Optional.of("elsewhere"))).all());
        attempt(() -> admin.removeRaftVoter(3009, Uuid.randomUuid()).all());
        attempt(() -> admin.removeRaftVoter(3001, Uuid.randomUuid(),
            new RemoveRaftVoterOptions().setClusterId(Optional.of("elsewhere"))).all());
        admin.describeFeatures().featureMetadata().get();
    }
}
