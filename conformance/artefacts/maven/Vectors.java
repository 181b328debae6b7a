package kraftspec.vectors;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.zip.GZIPInputStream;

/** Golden vectors of the Kafka protocol, a file a message; the README says what is in one. */
public final class Vectors {
    public static final String VERSION = "@VERSION@";

    private Vectors() {}

    /** The names of the files, such as kafka/VoteRequest, in order. */
    public static List<String> names() throws IOException {
        try (InputStream index = open("names.txt")) {
            return List.of(new String(index.readAllBytes(), StandardCharsets.UTF_8).split("\n"));
        }
    }

    /** A file as JSON text. */
    public static String read(String name) throws IOException {
        try (InputStream text = new GZIPInputStream(open("vectors/" + name + ".json.gz"))) {
            return new String(text.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static InputStream open(String name) throws IOException {
        InputStream found = Vectors.class.getResourceAsStream(name);
        if (found == null) {
            throw new FileNotFoundException("there is no " + name + " among the vectors");
        }
        return found;
    }
}
