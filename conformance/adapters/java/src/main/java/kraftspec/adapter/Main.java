package kraftspec.adapter;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;

/** Speaks harness protocol 1 on standard input and output over Apache Kafka's own classes. */
public final class Main {
    private static final int BUFFER_BYTES = 1 << 16;

    private Main() {}

    public static void main(String[] args) throws IOException {
        // Kafka's generator reports on System.out, which here belongs to the protocol alone.
        System.setOut(System.err);
        var in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8), BUFFER_BYTES);
        var out = new BufferedWriter(
            new OutputStreamWriter(
                new FileOutputStream(FileDescriptor.out), StandardCharsets.UTF_8),
            BUFFER_BYTES);
        var session = new Session();
        String line;
        while (!session.stopped() && (line = in.readLine()) != null) {
            String reply = session.answer(line);
            if (reply != null) {
                out.write(reply);
                out.write('\n');
            }
            // A pipelining caller gets its replies in blocks, one that waits gets each at once.
            if (!in.ready()) {
                out.flush();
            }
        }
        out.flush();
    }
}
