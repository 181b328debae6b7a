package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/** Reads requests and responses that the network brings. */
final class Bodies {
    /** The bytes are not what Kafka's own class can read. */
    static final class Unreadable extends Exception {
        private static final long serialVersionUID = 1;

        Unreadable(String message) {
            super(message, null, false, false);
        }
    }

    private Bodies() { }

    static ApiMessage readRequest(short apiKey, short version, byte[] body) throws Unreadable {
        try {
            return read(ApiMessageType.fromApiKey(apiKey).newRequest(), version, body);
        } catch (RuntimeException error) {
            throw new Unreadable(Diagnosis.of(error));
        }
    }

    static ApiMessage readResponse(short apiKey, short version, byte[] body) throws Unreadable {
        try {
            return read(ApiMessageType.fromApiKey(apiKey).newResponse(), version, body);
        } catch (RuntimeException error) {
            throw new Unreadable(Diagnosis.of(error));
        }
    }

    private static ApiMessage read(ApiMessage message, short version, byte[] body)
            throws Unreadable {
        if (version < message.lowestSupportedVersion()
                || version > message.highestSupportedVersion()) {
            throw new Unreadable("version " + version + " of API " + message.apiKey()
                + ", which has " + message.lowestSupportedVersion() + " to "
                + message.highestSupportedVersion());
        }
        message.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), version);
        return message;
    }
}
