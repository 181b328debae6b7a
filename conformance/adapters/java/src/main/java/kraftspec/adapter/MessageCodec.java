package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.utils.Utils;

/** JSON value to bytes and back for one message, by its generated class and JSON converter. */
final class MessageCodec {
    private final String name;
    private final VersionRange versions;
    private final Constructor<?> constructor;
    private final Method fromJson;
    private final Method toJson;
    private final Layout layout;

    /** A value, and how many bytes Kafka left unread behind it. */
    record Decoded(JsonNode value, int trailingBytes) {}

    MessageCodec(JsonNode spec, String className, ClassLoader loader) {
        name = spec.get("name").asText();
        versions = VersionRange.parse(spec.path("validVersions"));
        if (versions.empty()) {
            // Some such schemas have no class at all, and none can be used.
            constructor = null;
            fromJson = null;
            toJson = null;
            layout = null;
            return;
        }
        try {
            Class<?> type = loader.loadClass(className);
            Class<?> converter = loader.loadClass(className + "JsonConverter");
            constructor = type.getConstructor();
            fromJson = converter.getMethod("read", JsonNode.class, short.class);
            toJson = converter.getMethod("write", type, short.class, boolean.class);
            layout = Layout.of(spec, type);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("no usable class for " + name + ": " + e, e);
        }
    }

    byte[] encode(short version, JsonNode value) throws ReflectiveOperationException {
        checkVersion(version);
        if (!value.isObject()) {
            throw new Refusal("wrong_type", "the value is not a JSON object");
        }
        Additions.prepare(value, layout, version);
        Message message = read(version, value);
        Additions.apply(value, message, layout, version);
        // As MessageUtil does it, whose method releases name differently.
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return Utils.toArray(buffer.flip());
    }

    private Message read(short version, JsonNode value) throws ReflectiveOperationException {
        try {
            return (Message) fromJson.invoke(null, value, version);
        } catch (InvocationTargetException e) {
            Refusal refusal = Refusal.of(e);
            String found = Diagnosis.of(value, layout, version);
            throw found == null ? refusal : new Refusal(found, refusal.getMessage());
        }
    }

    Decoded decode(short version, byte[] bytes) throws ReflectiveOperationException {
        checkVersion(version);
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Message message = (Message) constructor.newInstance();
        message.read(new ByteBufferAccessor(buffer), version);
        ObjectNode value = (ObjectNode) toJson.invoke(null, message, version, true);
        Additions.publish(value, message, layout, version);
        return new Decoded(value, buffer.remaining());
    }

    /** The generated classes check only some versions themselves. */
    private void checkVersion(short version) {
        if (!versions.contains(version)) {
            throw new Refusal("unsupported_version",
                name + " has versions " + versions + ", not " + version);
        }
    }
}
