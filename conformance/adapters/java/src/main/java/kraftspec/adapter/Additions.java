package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.DoubleNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.internal.MemoryRecords;

/** What the harness protocol adds to the JSON of Kafka's converters, struct by struct. */
final class Additions {
    private static final String UNKNOWN_TAGS = "_unknownTaggedFields";
    private static final Pattern FLOAT_BITS = Pattern.compile("0x[0-9a-fA-F]{16}");

    private Additions() {}

    /** Before the converter reads: float64 as it accepts them, younger structs out of its way. */
    static void prepare(JsonNode value, Layout layout, short version) {
        if (!(value instanceof ObjectNode object)) {
            return; // The converter says what is wrong.
        }
        for (Layout.Slot slot : layout.slots) {
            JsonNode field = object.get(slot.name());
            boolean float64 = slot.element().equals("float64");
            if (field == null || !float64 && slot.struct() == null) {
                continue;
            }
            if (!float64) {
                boolean present = slot.versions().contains(version);
                // A struct that the version lacks is read in the lowest version that has it.
                short inside = present ? version : (short) slot.versions().lowest();
                for (JsonNode element : slot.array() ? field : List.of(field)) {
                    prepare(element, slot.struct(), inside);
                }
                if (!present) {
                    AbsentStructs.hide(object, slot);
                }
            } else if (slot.array() && field instanceof ArrayNode array) {
                for (int i = 0; i < array.size(); i++) {
                    array.set(i, toDouble(array.get(i)));
                }
            } else {
                object.set(slot.name(), toDouble(field));
            }
        }
    }

    private static JsonNode toDouble(JsonNode node) {
        if (node.isIntegralNumber()) {
            return new DoubleNode(node.doubleValue());
        }
        if (node.isTextual() && FLOAT_BITS.matcher(node.textValue()).matches()) {
            long bits = Long.parseUnsignedLong(node.textValue().substring(2), 16);
            return new DoubleNode(Double.longBitsToDouble(bits));
        }
        return node;
    }

    /** After the converter has read: unknown tags, and structs that the version lacks. */
    static void apply(JsonNode value, Message message, Layout layout, short version)
            throws ReflectiveOperationException {
        for (JsonNode raw : value.path(UNKNOWN_TAGS)) {
            message.unknownTaggedFields().add(new RawTaggedField(
                (int) raw.path("tag").longValue(), Hex.parse(raw.path("hex").asText())));
        }
        for (Layout.Slot slot : layout.slots) {
            JsonNode field = value.get(slot.name());
            if (slot.struct() == null) {
                continue;
            }
            if (!slot.versions().contains(version)) {
                AbsentStructs.setHidden(value, message, slot);
            } else if (field != null) {
                applyBelow(field, slot, slot.get(message), version);
            }
        }
    }

    private static void applyBelow(JsonNode field, Layout.Slot slot, Object held, short version)
            throws ReflectiveOperationException {
        if (held == null) {
            return;
        }
        if (!slot.array()) {
            apply(field, (Message) held, slot.struct(), version);
            return;
        }
        Iterator<?> objects = ((Iterable<?>) held).iterator();
        for (JsonNode element : field) {
            apply(element, (Message) objects.next(), slot.struct(), version);
        }
    }

    /** After the converter has written: records, float64 bits where not finite, unknown tags. */
    static void publish(ObjectNode json, Message message, Layout layout, short version)
            throws ReflectiveOperationException {
        for (Layout.Slot slot : layout.slots) {
            JsonNode field = json.get(slot.name());
            if (field == null || !slot.versions().contains(version)) {
                continue;
            }
            if (slot.element().equals("records")) {
                json.set(slot.name(), recordsToJson(slot.get(message)));
            } else if (slot.element().equals("float64")) {
                json.set(slot.name(), slot.array() ? doubles(field) : fromDouble(field));
            } else if (slot.struct() != null) {
                publishBelow(field, slot, slot.get(message), version);
            }
        }
        List<RawTaggedField> unknown = message.unknownTaggedFields();
        if (!unknown.isEmpty()) {
            ArrayNode list = json.putArray(UNKNOWN_TAGS);
            for (RawTaggedField raw : unknown) {
                list.addObject()
                    .put("tag", Integer.toUnsignedLong(raw.tag()))
                    .put("hex", Hex.format(raw.data()));
            }
        }
    }

    private static void publishBelow(JsonNode field, Layout.Slot slot, Object held, short version)
            throws ReflectiveOperationException {
        if (held == null) {
            return;
        }
        if (!slot.array()) {
            publish((ObjectNode) field, (Message) held, slot.struct(), version);
            return;
        }
        Iterator<?> objects = ((Iterable<?>) held).iterator();
        for (JsonNode element : field) {
            publish((ObjectNode) element, (Message) objects.next(), slot.struct(), version);
        }
    }

    private static JsonNode recordsToJson(Object records) {
        if (records == null) {
            return NullNode.instance;
        }
        ByteBuffer buffer = ((MemoryRecords) records).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new BinaryNode(bytes);
    }

    private static JsonNode doubles(JsonNode field) {
        if (field instanceof ArrayNode array) {
            for (int i = 0; i < array.size(); i++) {
                array.set(i, fromDouble(array.get(i)));
            }
        }
        return field;
    }

    private static JsonNode fromDouble(JsonNode node) {
        double value = node.doubleValue();
        return node.isNull() || Double.isFinite(value)
            ? node
            : new TextNode(String.format("0x%016x", Double.doubleToRawLongBits(value)));
    }
}
