import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.common.Node;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Runs Apache Kafka's own tools again and again in one process.
 *
 * <p>Each line of input is a JSON array: {@code quorum} and the arguments of MetadataQuorumCommand,
 * {@code dump} and those of DumpLogSegments, or {@code admin} and the addresses of controllers,
 * of which the AdminClient then tells what it finds. Each line of output is a JSON object with the
 * exit code and what was printed. Arguments that a tool's parser refuses end the process, as they
 * end the tool.
 */
public final class KafkaTools {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var out = new ByteArrayOutputStream();
            var err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            ObjectNode said = JSON.createObjectNode();
            said.put("code", run(JSON.readValue(line, String[].class)));
            said.put("out", out.toString(StandardCharsets.UTF_8));
            said.put("err", err.toString(StandardCharsets.UTF_8));
            answers.println(JSON.writeValueAsString(said));
        }
    }

    private static int run(String[] words) throws Exception {
        String[] arguments = Arrays.copyOfRange(words, 1, words.length);
        switch (words[0]) {
            case "quorum":
                // What main does, without the end of the process.
                Method tool = Class.forName("org.apache.kafka.tools.MetadataQuorumCommand")
                    .getDeclaredMethod("mainNoExit", String[].class);
                tool.setAccessible(true);
                return (int) tool.invoke(null, (Object) arguments);
            case "dump":
                DumpLogSegments.main(arguments);
                return 0;
            default:
                admin(arguments[0]);
                return 0;
        }
    }

    private static void admin(String controllers) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.controllers", controllers);
        ObjectNode found = JSON.createObjectNode();
        try (Admin admin = Admin.create(properties)) {
            DescribeClusterResult cluster = admin.describeCluster();
            found.put("clusterId", cluster.clusterId().get());
            found.put("controllerId", cluster.controller().get().id());
            ObjectNode nodes = found.putObject("nodes");
            for (Node node : cluster.nodes().get()) {
                nodes.put(node.idString(), node.host() + ":" + node.port());
            }
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            found.put("leaderId", quorum.leaderId());
            found.put("leaderEpoch", quorum.leaderEpoch());
            found.put("highWatermark", quorum.highWatermark());
            ObjectNode voters = found.putObject("voters");
            for (QuorumInfo.ReplicaState voter : quorum.voters()) {
                String id = Integer.toString(voter.replicaId());
                voters.put(id, voter.replicaDirectoryId().toString());
            }
            found.put("observers", quorum.observers().size());
            FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
            ObjectNode supported = found.putObject("supported");
            features.supportedFeatures().forEach((name, range) ->
                supported.put(name, range.minVersion() + " to " + range.maxVersion()));
        }
        System.out.println(JSON.writeValueAsString(found));
    }
}
