package kraftspec.peer;

import java.nio.ByteBuffer;

import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/** Messages of the protocol, through the classes that Kafka's generator made. */
final class Messages {
    private interface Reader {
        ApiMessage read(Readable readable, short version);
    }

    private Messages() {
    }

    static Task codec(String operation, String message, short version, byte[] data) {
        Reader reader = switch (message) {
            case "MetadataResponse" -> MetadataResponseData::new;
            case "FetchResponse" -> FetchResponseData::new;
            case "ProduceRequest" -> ProduceRequestData::new;
            case "VoteRequest" -> VoteRequestData::new;
            default -> throw new IllegalArgumentException("no message " + message);
        };
        ByteBuffer wire = ByteBuffer.wrap(data);
        ApiMessage value = reader.read(new ByteBufferAccessor(wire.duplicate()), version);
        long check = Main.same(write(value, version).array(), data);
        return switch (operation) {
            case "encode-message" -> new Task(() -> write(value, version).position(), 0, check);
            case "decode-message" -> new Task(
                () -> reader.read(new ByteBufferAccessor(wire.duplicate()), version).apiKey(),
                0, check);
            default -> throw new IllegalArgumentException("no operation " + operation);
        };
    }

    /** Sizes the message, then writes it into a new buffer of that size, as a client does. */
    private static ByteBuffer write(ApiMessage value, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(value.size(cache, version));
        value.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer;
    }
}
