import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.common.Node;

/**
 * Runs Apache Kafka's own tools many times in one process: a start of Java takes a second.
 *
 * <p>Reads lines {@code {"tool": class, "arguments": [...]}} and answers each by a line
 * {@code {"code": ..., "out": ..., "err": ..., "thrown": ...}}; {@code thrown} is the message of
 * the exception that ended it, of which Java would print the trace. {@code AdminClient} is no tool:
 * it is asked for what it finds at the controllers whose addresses are the argument. Arguments that
 * a parser of argparse4j refuses end the process, as they end the tool.
 */
public final class KafkaTools {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final class Ended extends RuntimeException {
        final int code;

        Ended(int code) {
            this.code = code;
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        endByThrowing();
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            List<String> arguments = new ArrayList<>();
            asked.get("arguments").forEach(each -> arguments.add(each.asText()));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            ObjectNode answer = JSON.createObjectNode();
            try {
                String tool = asked.get("tool").asText();
                if (tool.equals("AdminClient")) {
                    KafkaTools.class.getMethod("admin", String.class)
                        .invoke(null, arguments.get(0));
                } else {
                    Class.forName(tool).getMethod("main", String[].class)
                        .invoke(null, (Object) arguments.toArray(new String[0]));
                }
                answer.put("code", 0);
            } catch (java.lang.reflect.InvocationTargetException wrapped) {
                Throwable thrown = wrapped.getCause();
                if (thrown instanceof Ended) {
                    answer.put("code", ((Ended) thrown).code);
                } else {
                    answer.put("code", 1);
                    answer.put("thrown", String.valueOf(thrown.getMessage()));
                }
            }
            System.out.flush();
            System.err.flush();
            System.setOut(answers);
            System.setErr(errors);
            answer.put("out", out.toString(StandardCharsets.UTF_8));
            answer.put("err", err.toString(StandardCharsets.UTF_8));
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    /** A tool that ends throws Ended. The class that ends programs moved in 4.4. */
    private static void endByThrowing() throws ReflectiveOperationException {
        String utils = "org.apache.kafka.common.utils.";
        Class<?> exit;
        try {
            exit = Class.forName(utils + "Exit");
        } catch (ClassNotFoundException moved) {
            exit = Class.forName(utils + "internals.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object ending = Proxy.newProxyInstance(
            procedure.getClassLoader(), new Class<?>[] {procedure}, (self, method, values) -> {
                throw new Ended((int) values[0]);
            });
        exit.getMethod("setExitProcedure", procedure).invoke(null, ending);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, ending);
    }

    /** Prints what the AdminClient finds at these controllers. */
    public static void admin(String controllers) throws Exception {
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
