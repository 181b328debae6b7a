package kraftspec.capture;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.config.ConfigResource;

/** Clients that push their metrics because a subscription asks for them (KIP-714). */
final class TelemetryWork {
    private TelemetryWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        ConfigResource metrics =
            new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "java-pushed");
        try (Admin admin = Admin.create(cluster.properties("telemetry-admin"))) {
            admin.incrementalAlterConfigs(Map.of(metrics, List.of(
                new AlterConfigOp(new ConfigEntry("interval.ms", "100"), OpType.SET),
                new AlterConfigOp(new ConfigEntry("metrics",
                    "org.apache.kafka.producer.connection.,org.apache.kafka.consumer.connection."),
                    OpType.SET)))).all().get();
            Thread.sleep(500);
            Properties producing = ProduceWork.producer(cluster, "telemetry-producer");
            Properties consuming = ConsumeWork.consumer(cluster, "telemetry-consumer", null);
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing);
                    KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consuming)) {
                producer.clientInstanceId(Duration.ofSeconds(10));
                consumer.assign(List.of());
                consumer.clientInstanceId(Duration.ofSeconds(10));
                Thread.sleep(1000);
            }
            admin.listConfigResources().all().get();
            admin.incrementalAlterConfigs(Map.of(metrics, List.of(
                new AlterConfigOp(new ConfigEntry("interval.ms", ""), OpType.DELETE),
                new AlterConfigOp(new ConfigEntry("metrics", ""), OpType.DELETE)))).all().get();
        }
    }
}
