package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.Uuid;

/** Reads the fields of one command. No length that a command names is believed unchecked. */
final class Fields {
    /** A command that is not as the protocol has it. */
    static final class WrongCommand extends RuntimeException {
        private static final long serialVersionUID = 1;
        final int position;

        WrongCommand(String message, int position) {
            super(message, null, false, false);
            this.position = position;
        }
    }

    private ByteBuffer from = ByteBuffer.allocate(0);
    private int end;

    /** Begins to read the bytes from the buffer's position up to {@code end}. */
    void open(ByteBuffer buffer, int end) {
        this.from = buffer;
        this.end = end;
    }

    /** Checks that the command has no bytes beyond its fields. */
    void close() {
        if (from.position() != end) {
            throw wrong((end - from.position()) + " bytes more than its fields have");
        }
    }

    WrongCommand wrong(String what) {
        return new WrongCommand(what, from.position());
    }

    private void need(int count) {
        if (count > end - from.position()) {
            throw wrong("a field of " + count + " bytes, where " + (end - from.position())
                + " are left of the command");
        }
    }

    boolean readBool() {
        byte value = readInt8();
        if (value != 0 && value != 1) {
            throw wrong("a bool of " + value);
        }
        return value == 1;
    }

    byte readInt8() {
        need(Byte.BYTES);
        return from.get();
    }

    short readInt16() {
        need(Short.BYTES);
        return from.getShort();
    }

    int readInt32() {
        need(Integer.BYTES);
        return from.getInt();
    }

    long readInt64() {
        need(Long.BYTES);
        return from.getLong();
    }

    Uuid readUuid() {
        need(2 * Long.BYTES);
        return new Uuid(from.getLong(), from.getLong());
    }

    /** A copy, for Kafka's readers keep parts of what they have read. */
    byte[] readBytes() {
        int size = readInt32();
        if (size < 0) {
            throw wrong("a length of " + size);
        }
        need(size);
        byte[] value = new byte[size];
        from.get(value);
        return value;
    }

    String readString() {
        return new String(readBytes(), StandardCharsets.UTF_8);
    }

    List<Integer> readInt32s() {
        int count = readCount();
        List<Integer> values = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            values.add(readInt32());
        }
        return values;
    }

    List<byte[]> readByteses() {
        int count = readCount();
        List<byte[]> values = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            values.add(readBytes());
        }
        return values;
    }

    private int readCount() {
        int count = readInt32();
        // Each element takes four bytes at least.
        if (count < 0 || count > (end - from.position()) / Integer.BYTES) {
            throw wrong("an array of " + count + " elements, where "
                + (end - from.position()) + " bytes are left of the command");
        }
        return count;
    }
}
