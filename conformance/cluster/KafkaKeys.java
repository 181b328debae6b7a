// Every property that a server of Apache Kafka defines, as JSON: its type, its default, what a
// value must be. Read from the definitions themselves, validators' private bounds included.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

public class KafkaKeys {
    public static void main(String[] arguments) throws Exception {
        Map<String, Map<String, Object>> keys = new TreeMap<>();
        for (ConfigDef.ConfigKey key : kafka.server.KafkaConfig.configDef().configKeys().values()) {
            Map<String, Object> said = new TreeMap<>();
            said.put("type", key.type.name());
            if (!key.hasDefault()) {
                said.put("required", true);
            } else if (key.defaultValue != null) {
                said.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
            }
            if (key.internalConfig) {
                said.put("internal", true);
            }
            if (key.validator != null) {
                describe(key.validator, said);
            }
            keys.put(key.name, said);
        }
        ObjectMapper mapper = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        System.out.println(mapper.writeValueAsString(keys));
    }

    private static void describe(ConfigDef.Validator validator, Map<String, Object> said)
            throws ReflectiveOperationException {
        switch (validator.getClass().getSimpleName()) {
            case "Range" -> {
                put(said, "min", read(validator, "min"));
                put(said, "max", read(validator, "max"));
            }
            case "ValidString" -> said.put("one_of", read(validator, "validStrings"));
            case "CaseInsensitiveValidString" -> {
                List<String> sorted = new ArrayList<>();
                for (Object one : (Iterable<?>) read(validator, "validStrings")) {
                    sorted.add((String) one);
                }
                sorted.sort(null);
                said.put("one_of", sorted);
                said.put("any_case", true);
            }
            case "ValidList" -> {
                List<?> known = (List<?>) read(read(validator, "validString"), "validStrings");
                if (!known.isEmpty()) {
                    said.put("one_of", known);
                }
                said.put("may_be_empty", read(validator, "isEmptyAllowed"));
                said.put("unique", true);
            }
            case "NonEmptyString" -> said.put("may_be_empty", false);
            case "NonNullValidator" -> { } // A value that is written is not null.
            default -> said.put("rule", validator.getClass().getSimpleName());
        }
        if (validator instanceof ConfigDef.LambdaValidator) {
            said.put("rule", validator.toString());
        }
    }

    private static void put(Map<String, Object> said, String name, Object value) {
        if (value != null) {
            said.put(name, value);
        }
    }

    private static Object read(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
