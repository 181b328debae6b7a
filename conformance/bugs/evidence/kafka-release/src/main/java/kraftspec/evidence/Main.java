package kraftspec.evidence;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;

/**
 * Any release of Apache Kafka since 2.8 behind harness protocol 1, by its generated classes.
 *
 * <p>With the argument "schema" what is encoded is also read and written by the message's Schema,
 * Kafka's second description of the same bytes; and what is decoded goes through it first.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> CLASS_NAMES = List.of(
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.coordinator.group.generated.%s");

    private final boolean bySchema;

    private Main(boolean bySchema) {
        this.bySchema = bySchema;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Main session = new Main(List.of(args).contains("schema"));
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode request = JSON.readTree(line);
            if (request.path("cmd").asText().equals("stop")) {
                return;
            }
            out.println(session.answer(request));
        }
    }

    private ObjectNode answer(JsonNode request) {
        ObjectNode reply = JSON.createObjectNode();
        if (request.has("id")) {
            reply.set("id", request.get("id"));
        }
        try {
            switch (request.path("cmd").asText()) {
                case "hello" -> hello(reply);
                case "encode" -> reply.put("hex", HexFormat.of().formatHex(encode(request)));
                case "decode" -> reply.set("value", decode(request));
                default -> throw new IllegalArgumentException("unknown cmd");
            }
        } catch (InvocationTargetException e) {
            refuse(reply, e.getCause());
        } catch (Exception e) {
            refuse(reply, e);
        }
        return reply;
    }

    private static void refuse(ObjectNode reply, Throwable why) {
        reply.putObject("error").put("class", "refused").put("detail", why.toString());
    }

    private void hello(ObjectNode reply) {
        String version = org.apache.kafka.common.utils.AppInfoParser.getVersion();
        reply.put("protocol", 1).put("name", bySchema ? "kafka-schema" : "kafka");
        reply.put("language", "java").put("version", version).put("spec", "kafka/" + version);
        reply.putObject("messages");
    }

    private byte[] encode(JsonNode request) throws Exception {
        short version = (short) request.path("version").asInt();
        Class<?> type = type(request);
        Message message = (Message) converter(type)
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, request.get("value"), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        byte[] bytes = new byte[buffer.position()];
        buffer.rewind().get(bytes);
        return bySchema ? again(type, version, bytes) : bytes;
    }

    private ObjectNode decode(JsonNode request) throws Exception {
        short version = (short) request.path("version").asInt();
        Class<?> type = type(request);
        byte[] bytes = HexFormat.of().parseHex(request.path("hex").asText());
        ByteBuffer buffer = ByteBuffer.wrap(bySchema ? again(type, version, bytes) : bytes);
        Message message = (Message) type.getConstructor().newInstance();
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(buffer.remaining() + " bytes are left");
        }
        Method write = converter(type).getMethod("write", type, short.class);
        return (ObjectNode) write.invoke(null, message, version);
    }

    /** Read bytes by the message's Schema, and write them again by it. */
    private static byte[] again(Class<?> type, short version, byte[] bytes) throws Exception {
        Schema schema = ((Schema[]) type.getField("SCHEMAS").get(null))[version];
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Struct struct = schema.read(buffer);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(
                "the Schema left " + buffer.remaining() + " bytes unread");
        }
        ByteBuffer out = ByteBuffer.allocate(schema.sizeOf(struct));
        schema.write(out, struct);
        return out.array();
    }

    private static Class<?> type(JsonNode request) throws ClassNotFoundException {
        String name = request.path("message").asText();
        for (String pattern : CLASS_NAMES) {
            try {
                return Class.forName(pattern.formatted(name));
            } catch (ClassNotFoundException e) {
                // The next package may have it.
            }
        }
        throw new ClassNotFoundException("no generated class for " + name);
    }

    private static Class<?> converter(Class<?> type) throws ClassNotFoundException {
        return Class.forName(type.getName() + "JsonConverter");
    }
}
