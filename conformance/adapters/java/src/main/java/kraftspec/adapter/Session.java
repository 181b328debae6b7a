package kraftspec.adapter;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** One conversation: each request line in, its reply line out. */
final class Session {
    private static final int PROTOCOL = 1;
    private static final String KAFKA_SET = "kafka";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, MessageSet> sets = new LinkedHashMap<>();
    private boolean stopped;

    Session() {
        sets.put(KAFKA_SET, KafkaJars.discover());
    }

    boolean stopped() {
        return stopped;
    }

    /** The reply to one line, or null where none is due (a stop). Never throws. */
    String answer(String line) {
        ObjectNode reply = JsonNodeFactory.instance.objectNode();
        try {
            JsonNode request = JSON.readTree(line);
            if (request.has("id")) {
                reply.set("id", request.get("id"));
            }
            if (request.path("cmd").asText().equals("stop")) {
                stopped = true;
                return null;
            }
            dispatch(request, reply);
        } catch (JsonProcessingException e) {
            String detail = "not JSON: " + e.getOriginalMessage();
            reply.set("error", new Refusal("refused", detail).toJson());
        } catch (Throwable e) {
            // Whatever Kafka throws, StackOverflowError and OutOfMemoryError too, is its verdict.
            reply.set("error", Refusal.of(e).toJson());
        }
        return reply.toString();
    }

    private void dispatch(JsonNode request, ObjectNode reply) throws Exception {
        switch (request.path("cmd").asText()) {
            case "hello" -> hello(request, reply);
            case "encode" -> {
                JsonNode value = required(request, "value");
                reply.put("hex", Hex.format(encode(request, value)));
            }
            case "decode" -> {
                byte[] bytes = Hex.parse(required(request, "hex").asText());
                MessageCodec.Decoded decoded = decode(request, bytes);
                reply.set("value", decoded.value());
                if (decoded.trailingBytes() > 0) {
                    reply.put("trailing", decoded.trailingBytes());
                }
            }
            case "load" -> load(request, reply);
            case "verdict" -> verdict(request, reply);
            case "errors" -> reply.set("errors", Registers.errors());
            case "api-keys" -> reply.set("apiKeys", Registers.apiKeys());
            case "header-versions" ->
                reply.set("headerVersions", Registers.headerVersions(request.has("dir")
                    ? SpecCompiler.apiMessageType(Path.of(request.get("dir").asText()))
                    : ApiMessageType.class));
            default -> throw new Refusal("refused",
                "unknown cmd " + request.path("cmd") + ": use hello, encode, decode, load, "
                    + "verdict, errors, api-keys, header-versions or stop");
        }
    }

    private void hello(JsonNode request, ObjectNode reply) {
        if (request.path("protocol").asInt() != PROTOCOL) {
            throw new Refusal("refused", "this adapter speaks protocol " + PROTOCOL + " only");
        }
        reply.put("protocol", PROTOCOL);
        reply.put("name", "kafka");
        reply.put("language", "java");
        reply.put("version", AppInfoParser.getVersion());
        reply.put("spec", "kafka/" + AppInfoParser.getVersion());
        ObjectNode messages = sets.get(KAFKA_SET).ranges();
        messages.put(RecordBatchCodec.NAME,
            RecordBatchCodec.VERSION + "-" + RecordBatchCodec.VERSION);
        reply.set("messages", messages);
        ObjectNode others = reply.putObject("sets");
        sets.forEach((name, set) -> {
            if (!name.equals(KAFKA_SET)) {
                others.set(name, set.ranges());
            }
        });
        reply.put("notes", "Apache Kafka's generated classes and JSON converters; decode leaves "
            + "trailing bytes and counts them; also load, verdict, errors, api-keys, "
            + "header-versions");
    }

    private void load(JsonNode request, ObjectNode reply) throws Exception {
        String name = required(request, "set").asText();
        if (name.equals(KAFKA_SET)) {
            throw new Refusal(
                "refused", "the set \"kafka\" comes from Kafka's jars: take another name");
        }
        MessageSet set;
        if (request.has("dir")) {
            set = SpecCompiler.load(Path.of(request.get("dir").asText()));
        } else {
            Map<String, String> specs = new LinkedHashMap<>();
            required(request, "specs").properties()
                .forEach(entry -> specs.put(entry.getKey(), entry.getValue().asText()));
            set = SpecCompiler.load(specs);
        }
        sets.put(name, set);
        reply.set("messages", set.ranges());
    }

    private void verdict(JsonNode request, ObjectNode reply) throws Exception {
        String complaint = SpecCompiler.complaint(required(request, "text").asText());
        reply.put("accepted", complaint == null);
        if (complaint != null) {
            reply.put("detail", complaint);
        }
    }

    private byte[] encode(JsonNode request, JsonNode value) throws Exception {
        return isBatch(request)
            ? RecordBatchCodec.encode(version(request), value)
            : message(request).encode(version(request), value);
    }

    private MessageCodec.Decoded decode(JsonNode request, byte[] bytes) throws Exception {
        return isBatch(request)
            ? RecordBatchCodec.decode(version(request), bytes)
            : message(request).decode(version(request), bytes);
    }

    /** A batch has no schema: it is no message of the jars, but served as one of the set. */
    private static boolean isBatch(JsonNode request) {
        return request.path("message").asText().equals(RecordBatchCodec.NAME)
            && request.path("spec").asText(KAFKA_SET).equals(KAFKA_SET);
    }

    private MessageCodec message(JsonNode request) {
        String setName = request.path("spec").asText(KAFKA_SET);
        MessageSet set = sets.get(setName);
        if (set == null) {
            throw new Refusal("unknown_message", "no set " + setName + ": load it first");
        }
        return set.message(required(request, "message").asText());
    }

    private static short version(JsonNode request) {
        JsonNode version = required(request, "version");
        if (!version.canConvertToInt() || version.intValue() != (short) version.intValue()) {
            throw new Refusal("unsupported_version", "version " + version + " is not an int16");
        }
        return (short) version.intValue();
    }

    private static JsonNode required(JsonNode request, String key) {
        JsonNode value = request.get(key);
        if (value == null) {
            throw new Refusal("refused", "the request lacks \"" + key + "\"");
        }
        return value;
    }
}
