package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** Configurations of every kind of resource, quotas and features. */
final class ConfigWork {
    private ConfigWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("configs"))) {
            configs(admin);
            quotas(admin);
            features(admin);
        }
    }

    private static ConfigResource resource(ConfigResource.Type type, String name) {
        return new ConfigResource(type, name);
    }

    private static AlterConfigOp op(OpType type, String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private static void configs(Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic("java-configs", 1, (short) 1))).all().get();
        ConfigResource topic = resource(ConfigResource.Type.TOPIC, "java-configs");
        ConfigResource broker = resource(ConfigResource.Type.BROKER, "1");
        ConfigResource brokers = resource(ConfigResource.Type.BROKER, "");
        ConfigResource logger = resource(ConfigResource.Type.BROKER_LOGGER, "1");
        ConfigResource group = resource(ConfigResource.Type.GROUP, "java-config-group");
        ConfigResource metrics = resource(ConfigResource.Type.CLIENT_METRICS, "java-metrics");
        Map<ConfigResource, Collection<AlterConfigOp>> changes = Map.of(
            topic, List.of(op(OpType.SET, "retention.ms", "3600000"),
                op(OpType.APPEND, "cleanup.policy", "compact"),
                op(OpType.DELETE, "segment.bytes", "")),
            brokers, List.of(op(OpType.SET, "message.max.bytes", "1500000")),
            group, List.of(op(OpType.SET, "consumer.session.timeout.ms", "50000")),
            metrics, List.of(op(OpType.SET, "interval.ms", "60000"),
                op(OpType.SET, "metrics", "org.apache.kafka.producer."),
                op(OpType.SET, "match", "client_software_name=apache-kafka-java")));
        attempt(() -> admin.incrementalAlterConfigs(
            changes, new AlterConfigsOptions().validateOnly(true)).all());
        admin.incrementalAlterConfigs(changes).all().get();
        admin.incrementalAlterConfigs(Map.of(topic, List.of(
            op(OpType.SUBTRACT, "cleanup.policy", "compact")))).all().get();
        attempt(() -> admin.incrementalAlterConfigs(Map.of(
            topic, List.of(op(OpType.SET, "no.such.key", "1")),
            broker, List.of(op(OpType.SET, "log.cleaner.threads", "none")))).all());
        attempt(() -> admin.incrementalAlterConfigs(Map.of(
            logger, List.of(op(OpType.SET, "kafka.server.KafkaApis", "WARN")))).all());
        for (ConfigResource one : List.of(topic, broker, brokers, logger, group, metrics)) {
            attempt(() -> admin.describeConfigs(List.of(one)).all());
        }
        attempt(() -> admin.describeConfigs(List.of(topic, broker), new DescribeConfigsOptions()
            .includeSynonyms(true).includeDocumentation(true)).all());
        attempt(() -> admin.describeConfigs(List.of(
            resource(ConfigResource.Type.TOPIC, "java-absent"))).all());
        admin.listConfigResources().all().get();
        admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC,
            ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get();
        admin.incrementalAlterConfigs(Map.of(
            metrics, List.of(op(OpType.DELETE, "interval.ms", ""), op(OpType.DELETE, "metrics", ""),
                op(OpType.DELETE, "match", "")),
            brokers, List.of(op(OpType.DELETE, "message.max.bytes", "")))).all().get();
    }

    private static void quotas(Admin admin) throws Exception {
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
        ClientQuotaEntity both = new ClientQuotaEntity(Map.of(
            ClientQuotaEntity.USER, "alice", ClientQuotaEntity.CLIENT_ID, "reader"));
        ClientQuotaEntity address = new ClientQuotaEntity(Map.of(
            ClientQuotaEntity.IP, "127.0.0.9"));
        java.util.HashMap<String, String> defaults = new java.util.HashMap<>();
        defaults.put(ClientQuotaEntity.CLIENT_ID, null);
        List<ClientQuotaAlteration> changes = new ArrayList<>();
        changes.add(new ClientQuotaAlteration(user, List.of(
            new ClientQuotaAlteration.Op("consumer_byte_rate", 1e9),
            new ClientQuotaAlteration.Op("producer_byte_rate", 2.5e9))));
        changes.add(new ClientQuotaAlteration(both, List.of(
            new ClientQuotaAlteration.Op("request_percentage", 1234.5))));
        changes.add(new ClientQuotaAlteration(address, List.of(
            new ClientQuotaAlteration.Op("connection_creation_rate", 1000.0))));
        changes.add(new ClientQuotaAlteration(new ClientQuotaEntity(defaults), List.of(
            new ClientQuotaAlteration.Op("producer_byte_rate", 1e12))));
        admin.alterClientQuotas(changes).all().get();
        attempt(() -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user,
            List.of(new ClientQuotaAlteration.Op("no_such_rate", 1.0))))).all());
        admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get();
        admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(
            ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, "alice"))))
            .entities().get();
        admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(
            ClientQuotaFilterComponent.ofEntityType(ClientQuotaEntity.USER),
            ClientQuotaFilterComponent.ofDefaultEntity(ClientQuotaEntity.CLIENT_ID))))
            .entities().get();
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user, List.of(
            new ClientQuotaAlteration.Op("consumer_byte_rate", null))))).all().get();
    }

    private static void features(Admin admin) throws Exception {
        admin.describeFeatures().featureMetadata().get();
        UpdateFeaturesOptions dry = new UpdateFeaturesOptions().validateOnly(true);
        attempt(() -> admin.updateFeatures(Map.of(
            "share.version", new FeatureUpdate((short) 1, UpgradeType.UPGRADE)), dry).all());
        attempt(() -> admin.updateFeatures(Map.of("metadata.version",
            new FeatureUpdate((short) 99, UpgradeType.UPGRADE)), dry).all());
        attempt(() -> admin.updateFeatures(Map.of("no.such.version",
            new FeatureUpdate((short) 1, UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions()).all());
        attempt(() -> admin.updateFeatures(Map.of("transaction.version",
            new FeatureUpdate((short) 1, UpgradeType.SAFE_DOWNGRADE)),
            new UpdateFeaturesOptions()).all());
        attempt(() -> admin.updateFeatures(Map.of("transaction.version",
            new FeatureUpdate((short) 2, UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions()).all());
    }
}
