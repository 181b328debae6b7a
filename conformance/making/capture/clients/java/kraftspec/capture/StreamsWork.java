package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;
import static kraftspec.capture.Workload.eventually;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;

/** A stream without state, in the classic and in the streams group protocol. */
final class StreamsWork {
    private static final String TOPIC = "java-streamed";

    private StreamsWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        ConsumeWork.fill(cluster, TOPIC, 2);
        try (Admin admin = Admin.create(cluster.properties("streams-admin"))) {
            admin.createTopics(List.of(new NewTopic("java-stream-out", 2, (short) -1))).all().get();
            for (String protocol : List.of("classic", "streams")) {
                stream(cluster, admin, protocol);
            }
            administer(admin);
        }
    }

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(TOPIC).repartition().to("java-stream-out");
        return builder.build();
    }

    private static void stream(Workload.Cluster cluster, Admin admin, String protocol)
            throws Exception {
        String group = "java-streams-" + protocol;
        Properties properties = cluster.properties(group);
        properties.remove("default.api.timeout.ms");
        properties.put("application.id", group);
        properties.put("group.protocol", protocol);
        properties.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        properties.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        properties.put("commit.interval.ms", "300");
        properties.put("state.dir", System.getProperty("java.io.tmpdir"));
        if (protocol.equals("streams")) {
            properties.put("processing.guarantee", "exactly_once_v2");
        }
        try (KafkaStreams streams = new KafkaStreams(topology(), properties)) {
            streams.start();
            eventually("the stream runs", () -> streams.state() == KafkaStreams.State.RUNNING);
            Thread.sleep(2000);
            attempt(() -> admin.describeStreamsGroups(List.of(group, "java-absent")).all());
            streams.close(Duration.ofSeconds(10));
        }
    }

    private static void administer(Admin admin) throws Exception {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        Map<String, ListStreamsGroupOffsetsSpec> specs = new HashMap<>();
        specs.put("java-streams-streams", new ListStreamsGroupOffsetsSpec());
        attempt(() -> admin.listStreamsGroupOffsets(specs).all());
        attempt(() -> admin.deleteStreamsGroupOffsets(
            "java-streams-streams", Set.of(first)).all());
        attempt(() -> admin.deleteStreamsGroups(
            List.of("java-streams-streams", "java-absent")).all());
    }
}
