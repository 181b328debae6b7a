// Kafka's and Java's own verdicts on questions of security: a line of JSON in, a line of JSON out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class SecurityOracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            JsonNode asked = MAPPER.readTree(line);
            try {
                answer = switch (asked.get("kind").asText()) {
                    case "name" -> new X500Principal(
                        Base64.getDecoder().decode(asked.get("der").asText())).getName();
                    case "rules" -> SslPrincipalMapper.fromRules(asked.get("rules").asText())
                        .getName(asked.get("subject").asText());
                    case "jaas" -> login(asked.get("text").asText());
                    case "acl", "range" -> allowed(asked);
                    default -> throw new IllegalStateException();
                };
            } catch (Exception refused) {
                answer = Map.of("refused", String.valueOf(refused));
            }
            System.out.println(MAPPER.writeValueAsString(answer));
        }
    }

    private static Map<String, Object> login(String text) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.jaas.config", new Password(text));
        AppConfigurationEntry entry =
            JaasContext.loadClientContext(configs).configurationEntries().get(0);
        Map<String, Object> said = new TreeMap<>();
        said.put("module", entry.getLoginModuleName());
        said.put("options", entry.getOptions());
        return said;
    }

    private static boolean allowed(JsonNode asked) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        Map<String, Object> configs = new HashMap<>();
        configs.put("node.id", "1");
        configs.put("super.users", asked.get("super").asText());
        configs.put("allow.everyone.if.no.acl.found", asked.get("open").asText());
        authorizer.configure(configs);
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (JsonNode one : asked.get("acls")) {
            acls.put(Uuid.randomUuid(), new StandardAcl(
                ResourceType.fromCode((byte) one.get("type").asInt()),
                one.get("name").asText(),
                PatternType.fromCode((byte) one.get("pattern").asInt()),
                one.get("principal").asText(),
                one.get("host").asText(),
                AclOperation.fromCode((byte) one.get("operation").asInt()),
                AclPermissionType.fromCode((byte) one.get("permission").asInt())));
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        Action action = new Action(
            AclOperation.fromCode((byte) asked.get("operation").asInt()),
            new ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL),
            1, false, false);
        List<AuthorizationResult> results = authorizer.authorize(
            context(asked.get("principal").asText(), asked.get("host").asText()),
            new ArrayList<>(List.of(action)));
        authorizer.close();
        return results.get(0) == AuthorizationResult.ALLOWED;
    }

    private static AuthorizableRequestContext context(String principal, String host)
            throws Exception {
        KafkaPrincipal who = SecurityUtils.parseKafkaPrincipal(principal);
        InetAddress at = InetAddress.getByName(host);
        return new AuthorizableRequestContext() {
            @Override public String listenerName() { return "CONTROLLER"; }
            @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.SSL; }
            @Override public KafkaPrincipal principal() { return who; }
            @Override public InetAddress clientAddress() { return at; }
            @Override public int requestType() { return 55; }
            @Override public int requestVersion() { return 2; }
            @Override public String clientId() { return "test"; }
            @Override public int correlationId() { return 1; }
        };
    }
}
