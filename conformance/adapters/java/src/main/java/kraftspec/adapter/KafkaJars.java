package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.regex.Pattern;
import org.apache.kafka.message.MessageGenerator;

/** Finds every message schema in the jars of the class path, and the class that was made of it. */
final class KafkaJars {
    private static final Pattern SCHEMA =
        Pattern.compile("(common/message|common/metadata|message)/[^/]+\\.json");
    private static final String CONVERTER = "JsonConverter.class";

    private KafkaJars() {}

    static MessageSet discover() {
        MessageSet set = new MessageSet();
        for (String element : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (element.endsWith(".jar")) {
                try {
                    addAll(set, element);
                } catch (IOException e) {
                    throw new UncheckedIOException("cannot read " + element, e);
                }
            }
        }
        return set;
    }

    private static void addAll(MessageSet set, String jarPath) throws IOException {
        try (JarFile jar = new JarFile(jarPath)) {
            List<JarEntry> schemas = new ArrayList<>();
            // Modules put their classes in packages of their own; the converter beside a class
            // tells a message's class from another one of the same simple name.
            Map<String, String> qualifiedNames = new HashMap<>();
            jar.stream().forEach(entry -> {
                String name = entry.getName();
                if (SCHEMA.matcher(name).matches()) {
                    schemas.add(entry);
                } else if (name.endsWith(CONVERTER) && name.indexOf('$') < 0) {
                    String qualified = name
                        .substring(0, name.length() - CONVERTER.length()).replace('/', '.');
                    qualifiedNames.put(
                        qualified.substring(qualified.lastIndexOf('.') + 1), qualified);
                }
            });
            for (JarEntry schema : schemas) {
                JsonNode spec = read(jar, schema);
                if (MessageSet.isMessage(spec)) {
                    String className = MessageSet.className(spec);
                    set.add(spec, qualifiedNames.get(className), KafkaJars.class.getClassLoader());
                }
            }
        }
    }

    private static JsonNode read(JarFile jar, JarEntry entry) throws IOException {
        try (InputStream in = jar.getInputStream(entry)) {
            return MessageGenerator.JSON_SERDE.readTree(in);
        }
    }
}
