package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;
import static kraftspec.capture.Workload.eventually;

import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/** ACLs, SCRAM users, and delegation tokens of a user that has logged in. */
final class SecurityWork {
    private static final String PASSWORD = "captured-secret";

    private SecurityWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("security"))) {
            acls(admin);
            scram(admin);
            if (!cluster.sasl().equals("none")) {
                eventually("alice can log in", () -> tokens(cluster));
            }
        }
    }

    private static AclBinding binding(
            ResourceType type, String name, PatternType pattern, AclOperation operation,
            AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
            new AccessControlEntry("User:alice", "127.0.0.1", operation, permission));
    }

    private static void acls(Admin admin) throws Exception {
        List<AclBinding> bindings = List.of(
            binding(ResourceType.TOPIC, "java-", PatternType.PREFIXED, AclOperation.READ,
                AclPermissionType.ALLOW),
            binding(ResourceType.TOPIC, "java-secret", PatternType.LITERAL, AclOperation.WRITE,
                AclPermissionType.DENY),
            binding(ResourceType.GROUP, "*", PatternType.LITERAL, AclOperation.DESCRIBE,
                AclPermissionType.ALLOW),
            binding(ResourceType.TRANSACTIONAL_ID, "java", PatternType.LITERAL, AclOperation.ALL,
                AclPermissionType.ALLOW),
            binding(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL,
                AclOperation.ALTER, AclPermissionType.ALLOW),
            binding(ResourceType.DELEGATION_TOKEN, "token", PatternType.LITERAL,
                AclOperation.DESCRIBE, AclPermissionType.ALLOW));
        admin.createAcls(bindings).all().get();
        attempt(() -> admin.createAcls(List.of(binding(ResourceType.CLUSTER, "no-cluster",
            PatternType.LITERAL, AclOperation.ALTER, AclPermissionType.ALLOW))).all());
        admin.describeAcls(AclBindingFilter.ANY).values().get();
        for (PatternType pattern : List.of(PatternType.MATCH, PatternType.PREFIXED)) {
            admin.describeAcls(new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.TOPIC, "java-secret", pattern),
                new AccessControlEntryFilter("User:alice", null, AclOperation.ANY,
                    AclPermissionType.ANY))).values().get();
        }
        admin.deleteAcls(List.of(
            new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.GROUP, null, PatternType.ANY),
                AccessControlEntryFilter.ANY),
            new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.USER, "nobody", PatternType.LITERAL),
                AccessControlEntryFilter.ANY))).all().get();
    }

    private static void scram(Admin admin) throws Exception {
        ScramCredentialInfo quick = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        ScramCredentialInfo strong = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192);
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("alice", quick, PASSWORD),
            new UserScramCredentialUpsertion("bob", strong, PASSWORD))).all().get();
        attempt(() -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512),
            new UserScramCredentialUpsertion("", quick, PASSWORD),
            new UserScramCredentialUpsertion("carol",
                new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1), PASSWORD))).all());
        admin.describeUserScramCredentials().all().get();
        attempt(() -> admin.describeUserScramCredentials(List.of("alice", "nobody")).all());
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512))).all().get();
    }

    private static Properties login(
            Workload.Cluster cluster, String user, String password, boolean token) {
        Properties properties = cluster.properties(cluster.sasl(), "security-" + user.length());
        properties.put("security.protocol", "SASL_PLAINTEXT");
        properties.put("sasl.mechanism", "SCRAM-SHA-256");
        properties.put("sasl.jaas.config",
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"" + user
                + "\" password=\"" + password + "\" tokenauth=\"" + token + "\";");
        return properties;
    }

    private static boolean tokens(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(login(cluster, "alice", "wrong", false))) {
            attempt(() -> admin.describeCluster().nodes());
        }
        try (Admin admin = Admin.create(login(cluster, "alice", PASSWORD, false))) {
            if (attempt(() -> admin.describeCluster().nodes()) == null) {
                return false;
            }
            DelegationToken token = attempt(() -> admin.createDelegationToken(
                new CreateDelegationTokenOptions().maxLifetimeMs(600_000)
                    .renewers(List.of(new KafkaPrincipal("User", "bob")))).delegationToken());
            if (token == null) {
                throw new IllegalStateException("no delegation token was given");
            }
            attempt(() -> admin.createDelegationToken(new CreateDelegationTokenOptions()
                .owner(new KafkaPrincipal("User", "carol"))).delegationToken());
            attempt(() -> admin.renewDelegationToken(token.hmac(),
                new RenewDelegationTokenOptions().renewTimePeriodMs(300_000)).expiryTimestamp());
            eventually("the token is known", () -> !admin.describeDelegationToken()
                .delegationTokens().get().isEmpty());
            attempt(() -> admin.describeDelegationToken(new DescribeDelegationTokenOptions()
                .owners(List.of(new KafkaPrincipal("User", "bob")))).delegationTokens());
            String id = token.tokenInfo().tokenId();
            try (Admin other = Admin.create(login(cluster, id, token.hmacAsBase64String(), true))) {
                attempt(() -> other.describeCluster().nodes());
                attempt(() -> other.createDelegationToken().delegationToken());
            }
            attempt(() -> admin.renewDelegationToken(new byte[16]).expiryTimestamp());
            attempt(() -> admin.expireDelegationToken(token.hmac(),
                new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1)).expiryTimestamp());
            attempt(() -> admin.expireDelegationToken(new byte[16]).expiryTimestamp());
            return true;
        }
    }
}
