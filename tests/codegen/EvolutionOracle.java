import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

import org.apache.kafka.message.MessageGenerator;
import org.apache.kafka.message.MessageSpec;
import org.apache.kafka.message.checker.EvolutionVerifier;

/**
 * Asks Apache Kafka's own evolution checker about pairs of specs, all in one process.
 *
 * <p>Takes a directory with NAME.old.json beside NAME.new.json; prints a line a pair:
 * NAME, a tab, "ok", "refused" or "unreadable", a tab, and what Kafka said.
 */
public final class EvolutionOracle {
    private static final String OLD = ".old.json";

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        List<Path> olds;
        try (var files = Files.list(directory)) {
            olds = files.filter(file -> file.toString().endsWith(OLD)).sorted().toList();
        }
        for (Path old : olds) {
            String file = old.getFileName().toString();
            String name = file.substring(0, file.length() - OLD.length());
            System.out.println(name + "\t" + verdict(old, directory.resolve(name + ".new.json")));
        }
    }

    private static String verdict(Path older, Path newer) {
        EvolutionVerifier verifier;
        try {
            verifier = new EvolutionVerifier(read(older), read(newer));
        } catch (Exception error) {
            return "unreadable\t" + oneLine(error);
        }
        try {
            verifier.verify();
        } catch (Exception error) {
            return "refused\t" + oneLine(error);
        }
        return "ok\t";
    }

    private static MessageSpec read(Path file) throws Exception {
        return MessageGenerator.JSON_SERDE.readValue(Files.readString(file), MessageSpec.class);
    }

    private static String oneLine(Exception error) {
        return error.toString().replaceAll("\\s+", " ");
    }
}
