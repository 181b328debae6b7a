package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.TreeMap;

/** The messages of one spec set by name; a message's classes load when it is first asked for. */
final class MessageSet {
    private final Map<String, Entry> entries = new TreeMap<>();

    /** Where one message's schema and classes are. */
    private static final class Entry {
        final JsonNode spec;
        final String className;
        final ClassLoader loader;
        MessageCodec codec;

        Entry(JsonNode spec, String className, ClassLoader loader) {
            this.spec = spec;
            this.className = className;
            this.loader = loader;
        }
    }

    /** Whether a JSON document is a message schema at all; a retired message has no fields. */
    static boolean isMessage(JsonNode document) {
        return document.isObject() && document.has("type")
            && (document.has("fields") || document.has("validVersions"));
    }

    /** The simple name that Kafka's generator gives to the class of a schema. */
    static String className(JsonNode spec) {
        String name = spec.get("name").asText();
        return switch (spec.get("type").asText()) {
            case "request", "response", "header" -> name + "Data";
            default -> name;
        };
    }

    void add(JsonNode spec, String qualifiedClassName, ClassLoader loader) {
        String name = spec.get("name").asText();
        if (entries.put(name, new Entry(spec, qualifiedClassName, loader)) != null) {
            throw new Refusal("refused", "two schemas of one set are named " + name);
        }
    }

    MessageCodec message(String name) {
        Entry entry = entries.get(name);
        if (entry == null) {
            throw new Refusal("unknown_message", "no message is named " + name);
        }
        if (entry.codec == null) {
            entry.codec = new MessageCodec(entry.spec, entry.className, entry.loader);
        }
        return entry.codec;
    }

    /** Name to range, by name. */
    ObjectNode ranges() {
        ObjectNode ranges = JsonNodeFactory.instance.objectNode();
        entries.forEach((name, entry) ->
            ranges.put(name, VersionRange.parse(entry.spec.path("validVersions")).toString()));
        return ranges;
    }
}
