package kraftspec.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;

import org.apache.kafka.common.utils.internals.AppInfoParser;
import org.apache.kafka.common.utils.internals.Crc32C;

/**
 * The Java peer: Apache Kafka's own classes, timed on request.
 *
 * <p>A request is a line of tab-separated fields: operation, message, version, file,
 * milliseconds to warm up, milliseconds to measure, microseconds a round. The answer is a line of
 * JSON: nanoseconds a call for each round, and a CRC-32C of what was produced, which the asker
 * compares.
 */
public final class Main {
    private static final int ROUND_COUNT_MIN = 5;

    /** Keeps the compiler from leaving out a call whose result nobody reads. */
    private static volatile long sink;

    private Main() {
    }

    public static void main(String[] args) throws IOException {
        System.out.printf("{\"versions\": {\"kafka-clients\": \"%s\", \"java\": \"%s\"}}%n",
            AppInfoParser.getVersion(), Runtime.version().toString());
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            System.out.println(answer(line));
            System.out.flush();
        }
    }

    private static String answer(String line) {
        try {
            String[] fields = line.split("\t", -1);
            if (fields.length != 7) {
                throw new IllegalArgumentException(
                    "a request has seven fields, this one " + fields.length);
            }
            byte[] data = Files.readAllBytes(Path.of(fields[3]));
            Task task = task(fields[0], fields[1], Short.parseShort(fields[2]), data);
            List<Double> rounds = measure(task, Long.parseLong(fields[4]),
                Long.parseLong(fields[5]), Long.parseLong(fields[6]));
            StringJoiner times = new StringJoiner(", ");
            for (double time : rounds) {
                times.add(String.format(Locale.ROOT, "%.2f", time));
            }
            return String.format(Locale.ROOT,
                "{\"records\": %d, \"bytes\": %d, \"check\": %d, \"rounds\": [%s]}",
                task.recordCount(), data.length, task.check(), times);
        } catch (Exception error) {
            String text = error.toString().replace('\\', '/').replace('"', '\'');
            return "{\"error\": \"" + text.replaceAll("\\p{Cntrl}", " ") + "\"}";
        }
    }

    private static Task task(String operation, String message, short version, byte[] data) {
        return switch (operation) {
            case "crc32c" -> new Task(() -> Crc32C.compute(data, 0, data.length), 0, crc(data));
            case "encode-batch" -> Batches.encode(data);
            case "decode-batch" -> Batches.decode(data);
            default -> Messages.codec(operation, message, version, data);
        };
    }

    /** Returns nanoseconds a call, one figure a round. */
    private static List<Double> measure(Task task, long warmMs, long measureMs, long roundUs) {
        long warmCalls = 0;
        long seen = 0;
        long begin = System.nanoTime();
        while (System.nanoTime() - begin < warmMs * 1_000_000 || warmCalls == 0) {
            seen += task.call().getAsLong();
            warmCalls++;
        }
        sink = seen;
        // The compiler was at work while that went on: the pace is taken once more.
        double pace = time(task, Math.max(1, warmCalls / 8));
        long calls = Math.max(1, (long) Math.ceil(roundUs * 1e3 / pace));
        List<Double> rounds = new ArrayList<>();
        begin = System.nanoTime();
        while (System.nanoTime() - begin < measureMs * 1_000_000
                || rounds.size() < ROUND_COUNT_MIN) {
            rounds.add(time(task, calls));
        }
        return rounds;
    }

    private static double time(Task task, long calls) {
        long seen = 0;
        long begin = System.nanoTime();
        for (long call = 0; call < calls; call++) {
            seen += task.call().getAsLong();
        }
        double each = (double) (System.nanoTime() - begin) / calls;
        sink = seen;
        return each;
    }

    static long crc(byte[] data) {
        return Crc32C.compute(data, 0, data.length);
    }

    /** Returns the CRC-32C of bytes that must be those given. */
    static long same(byte[] made, byte[] given) {
        int at = Arrays.mismatch(made, given);
        if (at >= 0) {
            throw new IllegalStateException("other bytes from offset " + at + " on");
        }
        return crc(made);
    }
}
