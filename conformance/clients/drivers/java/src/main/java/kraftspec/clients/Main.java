package kraftspec.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Drives Apache Kafka's Java client: a line of JSON for each verb, and one back. */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, Object> common = new HashMap<>();
    private final KafkaProducer<String, String> producer;

    private Main(JsonNode ask) {
        int timeout = ask.get("timeout_ms").asInt();
        common.put("bootstrap.servers", ask.get("bootstrap").asText());
        common.put("client.id", "suite");
        common.put("request.timeout.ms", timeout);
        common.put("default.api.timeout.ms", timeout);
        common.put("socket.connection.setup.timeout.ms", (long) timeout);
        common.put("socket.connection.setup.timeout.max.ms", (long) timeout);
        common.put("retry.backoff.ms", 20L);
        common.put("retry.backoff.max.ms", 20L);
        common.put("reconnect.backoff.ms", 20L);
        common.put("reconnect.backoff.max.ms", 100L);
        JsonNode security = ask.path("security");
        boolean tls = security.has("ca");
        boolean sasl = security.has("user");
        if (tls) {
            common.put("ssl.truststore.type", "PEM");
            common.put("ssl.truststore.location", security.get("ca").asText());
        }
        if (sasl) {
            common.put("sasl.mechanism", "PLAIN");
            common.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.plain.PlainLoginModule required"
                    + " username=\"%s\" password=\"%s\";",
                security.get("user").asText(), security.get("password").asText()));
        }
        common.put("security.protocol", (sasl ? "SASL_" : "") + (tls ? "SSL" : "PLAINTEXT"));
        Map<String, Object> config = new HashMap<>(common);
        config.put("acks", ask.path("acks").asText("-1"));
        config.put("enable.idempotence", ask.path("idempotent").asBoolean());
        config.put("delivery.timeout.ms", timeout);
        config.put("max.block.ms", (long) timeout);
        config.put("linger.ms", 0L);
        producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private List<String> act(JsonNode ask) throws Exception {
        Duration timeout = Duration.ofMillis(ask.get("timeout_ms").asLong());
        switch (ask.get("verb").asText()) {
            case "produce" -> {
                List<Future<?>> sent = new ArrayList<>();
                for (JsonNode value : ask.get("values")) {
                    sent.add(producer.send(new ProducerRecord<>(
                        ask.get("topic").asText(), ask.path("partition").asInt(), null,
                        value.asText())));
                }
                for (Future<?> one : sent) {
                    one.get();
                }
            }
            case "consume" -> {
                return consume(ask, timeout);
            }
            case "admin" -> {
                try (Admin admin = Admin.create(common)) {
                    String name = ask.get("create_topic").asText();
                    NewTopic topic = new NewTopic(name, Optional.of(1), Optional.of((short) 1));
                    admin.createTopics(List.of(topic)).all().get();
                }
            }
            case "close" -> producer.close(timeout);
            default -> throw new IllegalArgumentException("there is no such verb");
        }
        return List.of();
    }

    private List<String> consume(JsonNode ask, Duration timeout) throws Exception {
        Map<String, Object> config = new HashMap<>(common);
        config.put("auto.offset.reset", "none");
        config.put("enable.auto.commit", false);
        config.put("fetch.max.wait.ms", 100);
        int count = ask.get("count").asInt();
        List<String> values = new ArrayList<>();
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        try (consumer) {
            TopicPartition partition =
                new TopicPartition(ask.get("topic").asText(), ask.path("partition").asInt());
            consumer.assign(List.of(partition));
            consumer.seek(partition, ask.path("offset").asLong());
            long until = System.nanoTime() + timeout.toNanos();
            while (values.size() < count) {
                if (System.nanoTime() > until) {
                    throw new TimeoutException(values.size() + " records came in time");
                }
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            }
        }
        return values.subList(0, count);
    }

    private static void say(Map<String, ?> words) throws Exception {
        System.out.println(JSON.writeValueAsString(words));
    }

    public static void main(String[] arguments) throws Exception {
        say(Map.of(
            "protocol", 1, "client", "java", "version", arguments[0], "language", "java"));
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Main driven = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode ask = JSON.readTree(line);
            try {
                List<String> values = List.of();
                if (ask.get("verb").asText().equals("connect")) {
                    driven = new Main(ask);
                } else if (driven != null) {
                    values = driven.act(ask);
                }
                say(Map.of("ok", true, "values", values));
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                say(Map.of("ok", false, "error", cause.toString()));
            }
        }
        System.exit(0);
    }
}
