package org.apache.kafka.raft;

import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.server.common.serialization.RecordSerde;

/**
 * The state machine's records are bytes, whatever they mean. None may be empty: no serde of Kafka's
 * writes such a record, and its reader would take the client down.
 */
final class BytesSerde implements RecordSerde<byte[]> {
    @Override public int recordSize(byte[] data, ObjectSerializationCache cache) {
        if (data.length == 0) {
            throw new IllegalArgumentException("a record is empty");
        }
        return data.length;
    }

    @Override public void write(byte[] data, ObjectSerializationCache cache, Writable to) {
        to.writeByteArray(data);
    }

    @Override public byte[] read(Readable from, int size) {
        return from.readArray(size);
    }
}
