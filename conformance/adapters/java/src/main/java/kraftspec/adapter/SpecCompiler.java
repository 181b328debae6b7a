package kraftspec.adapter;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.apache.kafka.message.MessageGenerator;

/** Turns schemas into usable classes with Kafka's own published generator, or says why not. */
final class SpecCompiler {
    private static final String PACKAGE = "kraftspec.loaded";
    private static final List<String> GENERATORS =
        List.of("MessageDataGenerator", "JsonConverterGenerator");
    private static final Pattern IMPORT =
        Pattern.compile("import (org\\.apache\\.kafka\\.[\\w.]+?)(\\.internals?)?\\.(\\w+);");
    private static final List<String> API_GENERATORS = List.of("ApiMessageTypeGenerator");
    private static final int COMPILER_OUTPUT_CHARS_MAX = 2_000; // Enough for the first mistakes.

    private SpecCompiler() {}

    /** The messages of all *.json files below a directory; other JSON documents are passed over. */
    static MessageSet load(Path directory) throws IOException {
        return load(read(directory));
    }

    /** The class that tells which API has which headers, made for the messages of a directory. */
    static Class<?> apiMessageType(Path directory) throws IOException, ClassNotFoundException {
        return compile(read(directory), API_GENERATORS).loader
            .loadClass(PACKAGE + ".ApiMessageType");
    }

    private static Map<String, String> read(Path directory) throws IOException {
        Map<String, String> specs = new LinkedHashMap<>();
        try (Stream<Path> paths = Files.walk(directory)) {
            for (Path path : paths.filter(p -> p.toString().endsWith(".json")).sorted().toList()) {
                String name = path.getFileName().toString();
                if (specs.put(name, Files.readString(path)) != null) {
                    throw new Refusal("refused", "two files are named " + name);
                }
            }
        } catch (NoSuchFileException e) {
            throw new Refusal("refused", "no such directory: " + e.getFile());
        }
        return specs;
    }

    /** The same from file name to text. */
    static MessageSet load(Map<String, String> specs) throws IOException {
        Compiled compiled = compile(specs, List.of());
        MessageSet set = new MessageSet();
        for (JsonNode spec : compiled.messages) {
            set.add(spec, PACKAGE + "." + MessageSet.className(spec), compiled.loader);
        }
        return set;
    }

    private record Compiled(List<JsonNode> messages, ClassLoader loader) {}

    private static Compiled compile(Map<String, String> specs, List<String> apiGenerators)
            throws IOException {
        Path work = Files.createTempDirectory("kafka-adapter");
        try {
            Path input = Files.createDirectory(work.resolve("specs"));
            Path sources = Files.createDirectory(work.resolve("sources"));
            Path classes = Files.createDirectory(work.resolve("classes"));
            List<JsonNode> messages = writeMessages(specs, input);
            String complaint = generate(input, sources, apiGenerators);
            if (complaint != null) {
                throw new Refusal("refused", complaint);
            }
            compile(sources, classes);
            return new Compiled(messages, new CompiledClasses(readClasses(classes)));
        } finally {
            delete(work);
        }
    }

    /** Why Kafka's generator refuses a schema, or null where it accepts it. */
    static String complaint(String text) throws IOException {
        Path work = Files.createTempDirectory("kafka-adapter");
        try {
            Path input = Files.createDirectory(work.resolve("specs"));
            Files.writeString(input.resolve("Spec.json"), text);
            return generate(input, Files.createDirectory(work.resolve("sources")), List.of());
        } finally {
            delete(work);
        }
    }

    private static List<JsonNode> writeMessages(Map<String, String> specs, Path input)
            throws IOException {
        List<JsonNode> messages = new ArrayList<>();
        for (Map.Entry<String, String> spec : specs.entrySet()) {
            JsonNode document;
            try {
                document = MessageGenerator.JSON_SERDE.readTree(spec.getValue());
            } catch (JsonProcessingException e) {
                throw new Refusal("refused", spec.getKey() + ": " + e.getMessage());
            }
            if (MessageSet.isMessage(document)) {
                messages.add(document);
                Files.writeString(input.resolve(spec.getKey()), spec.getValue());
            }
        }
        return messages;
    }

    private static String generate(Path input, Path output, List<String> apiGenerators) {
        try {
            MessageGenerator.processDirectories(
                PACKAGE, output.toString(), input.toString(), apiGenerators, GENERATORS);
            return null;
        } catch (Exception | StackOverflowError e) {
            // The outer exception names the file, the inner ones say what is wrong with it.
            List<String> messages = new ArrayList<>();
            for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                String message = String.valueOf(cause.getMessage());
                if (messages.stream().noneMatch(said -> said.contains(message))) {
                    messages.add(cause.getMessage() == null ? cause.toString() : message);
                }
            }
            return String.join(": ", messages).replace(input + "/", "");
        }
    }

    private static void compile(Path sources, Path classes) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        if (compiler == null) {
            throw new Refusal("refused", "this Java has no compiler: run the adapter with a JDK");
        }
        StringWriter output = new StringWriter();
        try (Stream<Path> paths = Files.list(sources);
                StandardJavaFileManager files =
                    compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8)) {
            List<Path> javaFiles = paths.filter(p -> p.toString().endsWith(".java")).toList();
            for (Path file : javaFiles) {
                String source = Files.readString(file);
                Files.writeString(file, IMPORT.matcher(source).replaceAll(SpecCompiler::present));
            }
            List<String> options = List.of(
                "-classpath", System.getProperty("java.class.path"), "-d", classes.toString(),
                "-proc:none", "-nowarn", "-Xlint:none", "-g:none");
            boolean compiled = javaFiles.isEmpty() || compiler.getTask(output, files, null, options,
                null, files.getJavaFileObjectsFromPaths(javaFiles)).call();
            if (!compiled) {
                String text = output.toString().replace(sources + "/", "");
                throw new Refusal("refused", "Kafka's generator made Java that does not compile: "
                    + text.substring(0, Math.min(text.length(), COMPILER_OUTPUT_CHARS_MAX)));
            }
        }
    }

    /**
     * An import of the generator, whose release may be another than that of the classes: releases
     * move classes between a package and its {@code internal} or {@code internals}.
     */
    private static String present(MatchResult found) {
        for (String part : List.of("", ".internals", ".internal")) {
            String name = found.group(1) + part + "." + found.group(3);
            String resource = name.replace('.', '/') + ".class";
            if (SpecCompiler.class.getClassLoader().getResource(resource) != null) {
                return "import " + name + ";";
            }
        }
        return found.group();
    }

    private static Map<String, byte[]> readClasses(Path classes) throws IOException {
        Map<String, byte[]> bytes = new HashMap<>();
        try (Stream<Path> paths = Files.walk(classes)) {
            for (Path path : paths.filter(p -> p.toString().endsWith(".class")).toList()) {
                String relative = classes.relativize(path).toString();
                bytes.put(
                    relative.substring(0, relative.length() - ".class".length()).replace('/', '.'),
                    Files.readAllBytes(path));
            }
        }
        return bytes;
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }

    /** Classes held in memory, so that their files need not outlive the compiler. */
    private static final class CompiledClasses extends ClassLoader {
        private final Map<String, byte[]> bytes;

        CompiledClasses(Map<String, byte[]> bytes) {
            super(SpecCompiler.class.getClassLoader());
            this.bytes = bytes;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            byte[] found = bytes.get(name);
            if (found == null) {
                throw new ClassNotFoundException(name);
            }
            return defineClass(name, found, 0, found.length);
        }
    }
}
