package kraftspec.adapter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** Kafka's registers of numbers: error codes, API keys, and the headers of each API. */
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

    /**
     * Which headers go before the request and the response of each API in each of its versions.
     * They are asked of an ApiMessageType, either Kafka's own or one that its generator made.
     */
    static ArrayNode headerVersions(Class<?> apiMessageType) throws ReflectiveOperationException {
        ArrayNode list = JsonNodeFactory.instance.arrayNode();
        Method lowest = apiMessageType.getMethod("lowestSupportedVersion");
        Method highest = apiMessageType.getMethod("highestSupportedVersion", boolean.class);
        Method key = apiMessageType.getMethod("apiKey");
        Method request = apiMessageType.getMethod("requestHeaderVersion", short.class);
        Method response = apiMessageType.getMethod("responseHeaderVersion", short.class);
        for (Object api : apiMessageType.getEnumConstants()) {
            short last = (short) highest.invoke(api, true);
            for (short version = (short) lowest.invoke(api); version <= last; version++) {
                list.addObject()
                    .put("id", (short) key.invoke(api))
                    .put("version", version)
                    .put("request", (short) request.invoke(api, version))
                    .put("response", (short) response.invoke(api, version));
            }
        }
        return list;
    }
}
