package kraftspec.adapter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.Arrays;
import java.util.Comparator;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** Kafka's two registers of numbers: error codes and API keys. */
final class Registers {
    private Registers() {}

    /** Code, enum name, and whether clients may retry, in order of code. */
    static ArrayNode errors() {
        ArrayNode list = JsonNodeFactory.instance.arrayNode();
        Arrays.stream(Errors.values())
            .sorted(Comparator.comparingInt(Errors::code))
            .forEach(error -> list.addObject()
                .put("code", error.code())
                .put("name", error.name())
                .put("retriable", error.exception() instanceof RetriableException));
        return list;
    }

    /** Id, enum name, and the name that its request and response begin with, in order of id. */
    static ArrayNode apiKeys() {
        ArrayNode list = JsonNodeFactory.instance.arrayNode();
        Arrays.stream(ApiKeys.values())
            .sorted(Comparator.comparingInt(key -> key.id))
            .forEach(key -> list.addObject()
                .put("id", key.id)
                .put("name", key.name())
                .put("message", key.name));
        return list;
    }
}
