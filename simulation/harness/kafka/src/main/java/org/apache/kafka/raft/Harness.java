package org.apache.kafka.raft;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;

/**
 * Hosts any number of Kafka's raft clients for a simulator: reads frames of commands from standard
 * input, and answers each by a frame of events on standard output.
 */
public final class Harness {
    private static final int FRAME_BYTES_MAX = 64 << 20; // More than any simulation sends at once.

    private final DataInputStream in;
    private final OutputStream out;
    private final Events events = new Events();
    private final Commands commands = new Commands(events);
    private byte[] frame = new byte[1 << 16];

    private Harness(DataInputStream in, OutputStream out) {
        this.in = in;
        this.out = out;
    }

    public static void main(String[] arguments) throws IOException {
        OutputStream out = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // What a library prints must not get between the frames.
        FixedOrder.establish();
        DataInputStream in = new DataInputStream(
            new BufferedInputStream(new FileInputStream(FileDescriptor.in), 1 << 16));
        new Harness(in, out).serve();
    }

    private void serve() throws IOException {
        while (true) {
            int size;
            try {
                size = in.readInt();
            } catch (EOFException end) {
                return;
            }
            events.beginFrame();
            if (size < 0 || size > FRAME_BYTES_MAX) {
                passOver(size);
                events.concern(0, 0);
                events.wrong("a frame of " + size + " bytes, where " + FRAME_BYTES_MAX
                    + " are allowed, at byte 0");
            } else {
                commands.carryOut(read(size));
            }
            byte[] answer = events.finishFrame();
            out.write(answer, 0, events.position());
        }
    }

    private void passOver(int size) throws IOException {
        for (int left = size; left > 0; left -= frame.length) { // A pipe cannot be skipped in.
            in.readFully(frame, 0, Math.min(left, frame.length));
        }
    }

    private ByteBuffer read(int size) throws IOException {
        if (frame.length < size) {
            frame = new byte[Math.max(size, 2 * frame.length)];
        }
        in.readFully(frame, 0, size);
        return ByteBuffer.wrap(frame, 0, size);
    }
}
