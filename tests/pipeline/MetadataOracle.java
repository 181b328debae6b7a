import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Says what Apache Kafka's own classes read in a directory of metadata segments and checkpoints.
 *
 * <p>{@code records DIR} prints each record of each file as a line of JSON. {@code images DIR N...}
 * prints a line for each N: the metadata image that the offsets below N give, as the records by
 * which Kafka would write a snapshot of it. A checkpoint is used where one ends at N or before, and
 * with {@code bare-images} never.
 */
public final class MetadataOracle {
    private static final int BATCH_BYTES_MAX = 64 << 20;
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[1]);
        if (arguments[0].equals("records")) {
            for (Path file : files(directory, "")) {
                printRecords(file);
            }
            return;
        }
        boolean snapshots = arguments[0].equals("images");
        for (int at = 2; at < arguments.length; at++) {
            printImage(directory, Long.parseLong(arguments[at]), snapshots);
        }
    }

    private static List<Path> files(Path directory, String ending) throws Exception {
        try (var files = Files.list(directory)) {
            return files.filter(file -> {
                String name = file.toString();
                boolean isData = name.endsWith(".log") || name.endsWith(".checkpoint");
                return isData && name.endsWith(ending);
            }).sorted().toList();
        }
    }

    private static List<Batch<ApiMessageAndVersion>> batches(Path file) throws Exception {
        List<Batch<ApiMessageAndVersion>> found = new ArrayList<>();
        try (FileRecords records = FileRecords.open(new File(file.toString()), false);
                var iterator = new RecordsIterator<>(records, MetadataRecordSerde.INSTANCE,
                    BufferSupplier.NO_CACHING, BATCH_BYTES_MAX, true, new LogContext())) {
            iterator.forEachRemaining(found::add);
        }
        return found;
    }

    private static void printRecords(Path file) throws Exception {
        for (Batch<ApiMessageAndVersion> batch : batches(file)) {
            long offset = batch.baseOffset();
            for (ControlRecord record : batch.controlRecords()) {
                ObjectNode line = line(file, batch, offset++);
                line.put("control", true);
                line.put("type", record.message().getClass().getSimpleName());
                line.put("apiKey", record.type().type());
                line.put("version", 0); // The one that Kafka reads them at.
                line.set("record", json(record));
                System.out.println(JSON.writeValueAsString(line));
            }
            for (ApiMessageAndVersion record : batch) {
                ObjectNode line = line(file, batch, offset++);
                line.put("control", false);
                put(line, record);
                System.out.println(JSON.writeValueAsString(line));
            }
        }
    }

    private static JsonNode json(ControlRecord record) throws Exception {
        Class<?> message = record.message().getClass();
        return (JsonNode) Class.forName(message.getName() + "JsonConverter")
            .getMethod("write", message, short.class).invoke(null, record.message(), (short) 0);
    }

    private static ObjectNode line(Path file, Batch<?> batch, long offset) {
        ObjectNode line = JSON.createObjectNode();
        line.put("file", file.getFileName().toString());
        line.put("offset", offset);
        line.put("epoch", batch.epoch());
        line.put("timestamp", batch.appendTimestamp());
        return line;
    }

    private static void put(ObjectNode line, ApiMessageAndVersion record) {
        line.put("type", record.message().getClass().getSimpleName());
        line.put("apiKey", record.message().apiKey());
        line.put("version", record.version());
        line.set("record", MetadataJsonConverters.writeJson(record.message(), record.version()));
    }

    private static MetadataImage load(Path checkpoint, long end, int epoch) throws Exception {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (Batch<ApiMessageAndVersion> batch : batches(checkpoint)) {
            for (ApiMessageAndVersion record : batch) {
                delta.replay(record.message());
            }
        }
        delta.finishSnapshot();
        return delta.apply(new MetadataProvenance(end - 1, epoch, 0, true));
    }

    private static void printImage(Path directory, long asOf, boolean snapshots) throws Exception {
        MetadataImage[] image = {MetadataImage.EMPTY};
        long start = 0;
        for (Path checkpoint : files(directory, snapshots ? ".checkpoint" : "nothing")) {
            String[] name = checkpoint.getFileName().toString().split("[-.]");
            long end = Long.parseLong(name[0]);
            if (end <= asOf) {
                image[0] = load(checkpoint, end, Integer.parseInt(name[1]));
                start = end;
            }
        }
        MetadataBatchLoader loader = new MetadataBatchLoader(
            new LogContext(), Time.SYSTEM,
            (message, cause) -> {
                throw new IllegalStateException(message, cause);
            },
            (delta, made, manifest) -> image[0] = made,
            SupportedConfigChecker.TRUE);
        loader.resetToImage(image[0]);
        for (Path segment : files(directory, ".log")) {
            for (Batch<ApiMessageAndVersion> batch : batches(segment)) {
                if (batch.baseOffset() >= start && batch.baseOffset() < asOf) {
                    loader.loadBatch(below(batch, asOf), LeaderAndEpoch.UNKNOWN);
                    loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
                }
            }
        }
        RecordListWriter writer = new RecordListWriter();
        if (image[0].features().metadataVersion().isPresent()) { // Else nothing was logged yet.
            image[0].write(writer, new ImageWriterOptions.Builder(image[0]).build());
        }
        ObjectNode line = JSON.createObjectNode();
        line.put("asOf", asOf);
        ArrayNode records = line.putArray("records");
        for (ApiMessageAndVersion record : writer.records()) {
            put(records.addObject(), record);
        }
        System.out.println(JSON.writeValueAsString(line));
    }

    /** What is below an offset, of a batch that may go on after it. */
    private static Batch<ApiMessageAndVersion> below(Batch<ApiMessageAndVersion> batch, long asOf) {
        if (batch.lastOffset() < asOf || batch.records().isEmpty()) {
            return batch;
        }
        int count = (int) (asOf - batch.baseOffset());
        List<ApiMessageAndVersion> kept = batch.records().subList(0, count);
        return Batch.data(batch.baseOffset(), batch.epoch(), batch.appendTimestamp(),
            batch.sizeInBytes(), kept);
    }
}
