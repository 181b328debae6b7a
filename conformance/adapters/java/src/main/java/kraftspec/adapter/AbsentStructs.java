package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import org.apache.kafka.common.protocol.Message;

/**
 * Fields of struct type that the asked version lacks. A converter reads other fields whatever the
 * version is, and the class then refuses to write them, or passes over an ignorable one. But on a
 * struct that is younger than the version the converter itself gives up, and the verdict of the
 * class would never be heard: so such a field is hidden from it, and set afterwards.
 */
final class AbsentStructs {
    private static final String HIDDEN = "_absent ";

    private AbsentStructs() {}

    static void hide(ObjectNode owner, Layout.Slot slot) {
        JsonNode field = owner.get(slot.name());
        if (field.isNull() || (slot.array() ? field.isArray() : field.isObject())) {
            owner.set(HIDDEN + slot.name(), owner.remove(slot.name()));
        }
    }

    static void setHidden(JsonNode json, Message owner, Layout.Slot slot)
            throws ReflectiveOperationException {
        JsonNode hidden = json.get(HIDDEN + slot.name());
        if (hidden != null) {
            Object value = hidden.isNull() ? null
                : slot.array() ? list(slot, hidden) : read(slot, hidden);
            slot.field().set(owner, value);
        }
    }

    @SuppressWarnings("unchecked")
    private static Object list(Layout.Slot slot, JsonNode json)
            throws ReflectiveOperationException {
        Class<?> type = slot.field().getType();
        // Structs with a map key are held in a collection class of their own.
        Collection<Object> list = type.isInterface()
            ? new ArrayList<>()
            : (Collection<Object>) type.getConstructor().newInstance();
        for (JsonNode element : json) {
            list.add(read(slot, element));
        }
        return list;
    }

    private static Object read(Layout.Slot slot, JsonNode json)
            throws ReflectiveOperationException {
        Class<?> converter = slot.field().getDeclaringClass().getClassLoader()
            .loadClass(slot.struct().converterName);
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        // Any version that has the field will do: only its being set matters.
        return read.invoke(null, json, (short) slot.versions().lowest());
    }
}
