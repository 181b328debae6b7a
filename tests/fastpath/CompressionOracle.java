import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Compresses and decompresses with Apache Kafka's own streams, a line of standard input a time.
 *
 * <p>{@code compress CODEC LEVEL FROM TO} (LEVEL "-": the default) and {@code decompress CODEC FROM
 * TO}; answers "ok", or "refused" and what Kafka said.
 */
public final class CompressionOracle {
    private static final byte MAGIC = RecordBatch.MAGIC_VALUE_V2;

    public static void main(String[] arguments) throws Exception {
        for (String line : new String(System.in.readAllBytes()).split("\n")) {
            String[] words = line.split(" ");
            byte[] from = Files.readAllBytes(Path.of(words[words.length - 2]));
            byte[] to;
            try {
                to = words[0].equals("compress")
                    ? compress(codec(words[1], words[2]), from)
                    : decompress(codec(words[1], "-"), from);
            } catch (Exception error) {
                System.out.println("refused " + error.toString().replaceAll("\\s+", " "));
                continue;
            }
            Files.write(Path.of(words[words.length - 1]), to);
            System.out.println("ok");
        }
    }

    private static Compression codec(String name, String level) {
        if (level.equals("-")) {
            return Compression.of(name).build();
        }
        int number = Integer.parseInt(level);
        return switch (name) {
            case "gzip" -> Compression.gzip().level(number).build();
            case "lz4" -> Compression.lz4().level(number).build();
            default -> Compression.zstd().level(number).build();
        };
    }

    private static byte[] compress(Compression codec, byte[] data) throws Exception {
        ByteBufferOutputStream out = new ByteBufferOutputStream(64);
        try (OutputStream stream = codec.wrapForOutput(out, MAGIC)) {
            stream.write(data);
        }
        ByteBuffer written = out.buffer().duplicate();
        written.flip();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return bytes;
    }

    private static byte[] decompress(Compression codec, byte[] data) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (InputStream stream =
                codec.wrapForInput(ByteBuffer.wrap(data), MAGIC, BufferSupplier.NO_CACHING)) {
            stream.transferTo(out);
        }
        return out.toByteArray();
    }
}
