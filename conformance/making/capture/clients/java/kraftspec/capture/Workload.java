package kraftspec.capture;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.ApiException;

/**
 * Ordinary work of Kafka's own Java clients, in named parts.
 *
 * <p>Arguments: the addresses of brokers, of their SASL listener and of controllers, a directory
 * of log directories' names, and the parts to run. A line {@code phase NAME} goes before each
 * part, and {@code failed NAME: WHY} after one that did not do what it was written to do.
 */
public final class Workload {
    /** Where the cluster is, as it advertises itself. */
    record Cluster(String brokers, String sasl, String controllers) {
        Properties properties(String clientId) {
            return properties(brokers, clientId);
        }

        Properties properties(String bootstrap, String clientId) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("client.id", clientId);
            properties.put("request.timeout.ms", "60000");
            properties.put("default.api.timeout.ms", "120000");
            return properties;
        }
    }

    /** A part of the work. */
    interface Part {
        void run(Cluster cluster) throws Exception;
    }

    private static final Map<String, Part> PARTS = Map.ofEntries(
        Map.entry("topics", TopicWork::run),
        Map.entry("configs", ConfigWork::run),
        Map.entry("security", SecurityWork::run),
        Map.entry("placement", PlacementWork::run),
        Map.entry("quorum", QuorumWork::run),
        Map.entry("produce", ProduceWork::run),
        Map.entry("transactions", TransactionWork::run),
        Map.entry("consume", ConsumeWork::run),
        Map.entry("groups", GroupWork::run),
        Map.entry("share", ShareWork::run),
        Map.entry("streams", StreamsWork::run),
        Map.entry("telemetry", TelemetryWork::run),
        Map.entry("plain", PlainWork::run));

    private Workload() {}

    public static void main(String[] arguments) {
        Cluster cluster = new Cluster(arguments[0], arguments[1], arguments[2]);
        boolean failed = false;
        for (String name : List.of(arguments).subList(3, arguments.length)) {
            System.out.println("phase " + name);
            try {
                PARTS.get(name).run(cluster);
            } catch (Throwable error) {
                failed = true;
                error.printStackTrace();
                System.out.println("failed " + name + ": " + error);
            }
        }
        System.exit(failed ? 1 : 0);
    }

    /** The result of a call; an answer that is an error is what was asked for here. */
    static <T> T attempt(Callable<KafkaFuture<T>> call) throws Exception {
        try {
            return call.call().get();
        } catch (ExecutionException refused) {
            if (refused.getCause() instanceof ApiException) {
                return null;
            }
            throw refused;
        } catch (ApiException refused) {
            return null;
        }
    }

    /** Something that the cluster is given time for. */
    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits for a condition, and fails where it does not come to hold in a minute and a half. */
    static void eventually(String what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + 90_000_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not after a minute and a half: " + what);
            }
            Thread.sleep(100);
        }
    }
}
