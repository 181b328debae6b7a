package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * A second look at a value that Kafka's converter refused. Its messages name the type of the struct
 * around a field instead of the field's own, and call a missing struct a missing field; so what
 * can be told only from the value is told from it. It never refuses what Kafka accepted.
 */
final class Diagnosis {
    private Diagnosis() {}

    /** The class of the first null or struct that is out of place, or null where there is none. */
    static String of(JsonNode value, Layout layout, short version) {
        if (!value.isObject()) {
            return value.isNull() ? "null_for_non_nullable" : "wrong_type";
        }
        for (Layout.Slot slot : layout.slots) {
            JsonNode field = value.get(slot.name());
            if (field == null || !slot.versions().contains(version)) {
                continue;
            }
            String found = null;
            if (field.isNull()) {
                found = slot.nullable().contains(version) ? null : "null_for_non_nullable";
            } else if (slot.array() && field.isArray()) {
                found = ofElements(field, slot, version);
            } else if (!slot.array() && slot.struct() != null) {
                found = of(field, slot.struct(), version);
            }
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    private static String ofElements(JsonNode array, Layout.Slot slot, short version) {
        for (JsonNode element : array) {
            String found = slot.struct() != null ? of(element, slot.struct(), version)
                : element.isNull() ? "null_for_non_nullable"
                : null;
            if (found != null) {
                return found;
            }
        }
        return null;
    }
}
