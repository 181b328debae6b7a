// What Kafka's own KafkaConfig makes of the properties files that are named, a line of JSON each:
// {"refused": why} or {"values": {key: value}, "controllers": [...], ...}.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.raft.QuorumConfig;

public class ConfigOracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        for (String path : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(MAPPER.writeValueAsString(judge(path)));
        }
    }

    private static Map<String, Object> judge(String path) {
        Map<String, Object> said = new TreeMap<>();
        try {
            Properties properties = new Properties();
            try (InputStream in = new FileInputStream(path)) {
                properties.load(in);
            }
            KafkaConfig config = KafkaConfig.fromProps(properties, false);
            said.put("values", values(config));
            said.put("listeners", endpoints(config.listeners()));
            said.put("controllers", endpoints(config.effectiveAdvertisedControllerListeners()));
            said.put("metadata_log_dir", config.metadataLogDir());
            List<String> voters = new ArrayList<>();
            QuorumConfig.parseVoterConnections(config.quorumConfig().voters()).forEach((id, at) ->
                voters.add(id + "@" + at.getHostString() + ":" + at.getPort()));
            said.put("voters", voters);
            List<String> servers = new ArrayList<>();
            QuorumConfig.parseBootstrapServers(config.quorumConfig().bootstrapServers())
                .forEach(at -> servers.add(at.getHostString() + ":" + at.getPort()));
            said.put("servers", servers);
        } catch (Throwable refused) {
            said.clear();
            said.put("refused", String.valueOf(refused.getMessage()));
        }
        return said;
    }

    private static Map<String, String> values(KafkaConfig config) {
        Map<String, String> values = new TreeMap<>();
        for (ConfigDef.ConfigKey key : KafkaConfig.configDef().configKeys().values()) {
            Object value = config.values().get(key.name);
            if (value instanceof Password password) {
                value = password.value();
                values.put(key.name, (String) value);
            } else if (value != null) {
                values.put(key.name, ConfigDef.convertToString(value, key.type));
            }
        }
        return values;
    }

    private static List<Map<String, Object>> endpoints(scala.collection.Seq<Endpoint> all) {
        List<Map<String, Object>> made = new ArrayList<>();
        for (int at = 0; at < all.size(); at++) {
            Endpoint one = all.apply(at);
            Map<String, Object> said = new TreeMap<>();
            said.put("name", one.listener());
            said.put("protocol", one.securityProtocol().name);
            said.put("host", one.host() == null ? "" : one.host());
            said.put("port", one.port());
            made.add(said);
        }
        return made;
    }
}
