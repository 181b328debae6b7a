package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What a schema says of one struct, bound to the generated class that holds its values. */
final class Layout {
    final String converterName;
    final List<Slot> slots = new ArrayList<>();

    /** One field: its key in JSON, its element type, where it lives, and its Java field. */
    record Slot(
        String name, String element, boolean array, VersionRange versions, VersionRange nullable,
        Layout struct, Field field) {

        Object get(Object owner) throws IllegalAccessException {
            return field.get(owner);
        }
    }

    private Layout(String converterName) {
        this.converterName = converterName;
    }

    /** The layout of a message's top struct, with those of all its structs below it. */
    static Layout of(JsonNode spec, Class<?> messageClass) throws ReflectiveOperationException {
        return new Binder(spec, messageClass).top();
    }

    private static final class Binder {
        private final Class<?> messageClass;
        private final JsonNode spec;
        private final Map<String, JsonNode> commonFields = new HashMap<>();
        private final Map<String, Layout> layouts = new HashMap<>();

        Binder(JsonNode spec, Class<?> messageClass) {
            this.spec = spec;
            this.messageClass = messageClass;
            for (JsonNode struct : list(spec.path("commonStructs"))) {
                commonFields.put(struct.get("name").asText(), struct.path("fields"));
            }
        }

        Layout top() throws ReflectiveOperationException {
            Layout layout = new Layout(messageClass.getName() + "JsonConverter");
            bind(layout, spec.get("fields"), messageClass);
            return layout;
        }

        private void bind(Layout layout, JsonNode fields, Class<?> owner)
                throws ReflectiveOperationException {
            for (JsonNode field : list(fields)) {
                String type = field.get("type").asText();
                boolean array = type.startsWith("[]");
                String element = array ? type.substring(2) : type;
                String name = lowerCaseFirst(field.get("name").asText());
                VersionRange versions = VersionRange.parse(
                    field.has("versions") ? field.get("versions") : field.path("taggedVersions"));
                Layout struct = Character.isUpperCase(element.charAt(0))
                    ? struct(element, field.path("fields"))
                    : null;
                Field javaField = owner.getDeclaredField(name);
                javaField.setAccessible(true);
                layout.slots.add(new Slot(
                    name, element, array, versions,
                    VersionRange.parse(field.path("nullableVersions")), struct, javaField));
            }
        }

        private Layout struct(String name, JsonNode inlineFields)
                throws ReflectiveOperationException {
            Layout known = layouts.get(name);
            if (known != null) {
                return known;
            }
            Class<?> type =
                messageClass.getClassLoader().loadClass(messageClass.getName() + "$" + name);
            Layout layout = new Layout(
                messageClass.getName() + "JsonConverter$" + name + "JsonConverter");
            layouts.put(name, layout);
            bind(layout, commonFields.getOrDefault(name, inlineFields), type);
            return layout;
        }

        /** Kafka's generator lets a single value stand for a list of one. */
        private static Iterable<JsonNode> list(JsonNode node) {
            return node.isObject() ? List.of(node) : node;
        }

        private static String lowerCaseFirst(String name) {
            return Character.toLowerCase(name.charAt(0)) + name.substring(1);
        }
    }
}
