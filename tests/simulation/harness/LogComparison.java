package org.apache.kafka.raft;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.raft.internals.KafkaRaftLog;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/**
 * Does the same at random to the harness's log and to Kafka's own, in files, and compares what both
 * say. Arguments: a folder, the first seed, how many seeds, how many operations each.
 */
public final class LogComparison {
    /** Runs what is due at once, and nothing later: what Kafka deletes after a minute stays. */
    private static final Scheduler NOW_OR_NEVER = new Scheduler() {
        @Override public void startup() { }

        @Override public void shutdown() { }

        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs,
                                                     long periodMs) {
            if (delayMs == 0) {
                task.run();
            }
            return null;
        }

        @Override public void resizeThreadPool(int size) { }
    };

    private static final int CRC_POSITION = 17; // In a batch. What is before it, no CRC covers.

    private final File folder;
    private final Random random;
    private final Disk disk = new Disk();
    private final Events events = new Events();
    private final Faults faults = new Faults(events);
    private final Map<String, Integer> counts;
    private final VirtualTime time = new VirtualTime();
    private VirtualLog ours;
    private KafkaRaftLog kafkas;
    private int epoch = 1;
    private int step;

    private LogComparison(File folder, long seed, Map<String, Integer> counts) throws Exception {
        this.folder = folder;
        this.random = new Random(seed);
        this.counts = counts;
        open();
    }

    private void open() throws Exception {
        NodeSettings settings = new NodeSettings(Uuid.ZERO_UUID, "", 0, true, false, List.of(),
            List.of(), 0, 0, 0, 0, 0, 0, 1 << 20, 1 << 20, Long.MAX_VALUE);
        events.beginFrame();
        ours = new VirtualLog(disk, faults, events, settings, 0);
        kafkas = KafkaRaftLog.createLog(
            new TopicPartition("__cluster_metadata", 0), Uuid.METADATA_TOPIC_ID, folder, time,
            NOW_OR_NEVER,
            new MetadataLogConfig(
                new AbstractConfig(MetadataLogConfig.CONFIG_DEF, Map.of(), false)),
            1);
    }

    private interface Question {
        Object ask(RaftLog log) throws Exception;
    }

    private String answer(RaftLog log, Question question) {
        try {
            return String.valueOf(question.ask(log));
        } catch (Exception error) {
            // Not all releases have this class where the harness can use it. Nobody catches it.
            return error.getClass().getSimpleName()
                .replace("UnexpectedAppendOffsetException", "IllegalStateException");
        }
    }

    private void compare(String what, Question question) {
        String ofOurs = answer(ours, question);
        String ofKafka = answer(kafkas, question);
        counts.merge(what, 1, Integer::sum);
        if (ofOurs.endsWith("Exception")) {
            counts.merge(what + ": " + ofOurs, 1, Integer::sum);
        }
        if (!ofOurs.equals(ofKafka)) {
            throw new AssertionError("step " + step + ", " + what + ": Kafka's log says " + ofKafka
                + ", ours " + ofOurs);
        }
    }

    private static String text(LogFetchInfo info) {
        ByteBuffer content;
        try {
            if (info.records instanceof MemoryRecords records) {
                content = records.buffer();
            } else {
                content = ByteBuffer.allocate(info.records.sizeInBytes());
                ((FileRecords) info.records).readInto(content, 0);
            }
        } catch (IOException error) {
            throw new AssertionError(error);
        }
        return info.startOffsetMetadata.offset() + " " + content.remaining() + " "
            + content.hashCode();
    }

    private static String text(LogAppendInfo info) {
        return info.firstOffset() + " to " + info.lastOffset();
    }

    private MemoryRecords batch(long baseOffset, int batchEpoch) {
        SimpleRecord[] records = new SimpleRecord[1 + random.nextInt(4)];
        for (int i = 0; i < records.length; i++) {
            records[i] = new SimpleRecord(1, null, new byte[random.nextInt(50)]);
        }
        return MemoryRecords.withRecords(baseOffset, Compression.NONE, batchEpoch, records);
    }

    private Records batches() {
        List<MemoryRecords> all = new ArrayList<>();
        long offset = ours.endOffset().offset();
        int batchEpoch = Math.max(1, ours.lastFetchedEpoch());
        int count = 1 + random.nextInt(4);
        for (int i = 0; i < count; i++) {
            batchEpoch += random.nextInt(4) == 0 ? 1 : 0;
            MemoryRecords made = batch(offset, batchEpoch);
            offset += made.firstBatch().lastOffset() - made.firstBatch().baseOffset() + 1;
            all.add(made);
        }
        int size = all.stream().mapToInt(MemoryRecords::sizeInBytes).sum();
        ByteBuffer joined = ByteBuffer.allocate(size);
        all.forEach(records -> joined.put(records.buffer().duplicate()));
        joined.flip();
        int damage = random.nextInt(12);
        if (damage == 0) { // The last one is cut off.
            joined.limit(size - 1 - random.nextInt(30));
        } else if (damage == 1) {
            int lastSize = all.get(count - 1).sizeInBytes();
            int at = size - 1 - random.nextInt(lastSize - CRC_POSITION);
            joined.put(at, (byte) (joined.get(at) ^ 1));
        }
        return MemoryRecords.readableRecords(joined);
    }

    private long someOffset() {
        int count = disk.log.batches().size();
        int choice = random.nextInt(10);
        if (choice == 0) {
            return random.nextInt(40);
        }
        if (choice == 1 || count == 0) {
            return disk.log.endOffset();
        }
        return disk.log.batches().get(Math.max(0, count - 1 - random.nextInt(8))).baseOffset();
    }

    private OffsetAndEpoch someId() {
        long offset = someOffset();
        OffsetAndEpoch found = ours.endOffsetForEpoch(epoch);
        int lastEpoch = disk.log.batches().stream().filter(batch -> batch.lastOffset() < offset)
            .mapToInt(StoredBatch::epoch).max().orElse(Math.min(1, found.epoch()));
        return new OffsetAndEpoch(offset, lastEpoch + (random.nextInt(12) == 0 ? 1 : 0));
    }

    private Object writeSnapshot(RaftLog log, OffsetAndEpoch id, boolean isChecked) {
        return (isChecked ? log.createNewSnapshot(id) : log.createNewSnapshotUnchecked(id))
            .map(writer -> {
                try (RawSnapshotWriter open = writer) {
                    open.append(MemoryRecords.withRecords(Compression.NONE,
                        new SimpleRecord(1, null, new byte[10])));
                    open.freeze();
                }
                return id;
            });
    }

    private void act() throws Exception {
        switch (random.nextInt(14)) {
            case 0, 1, 2 -> {
                int batchEpoch = Math.max(epoch, ours.lastFetchedEpoch());
                long end = disk.log.endOffset();
                boolean isTooEarly = end > 0 && random.nextInt(20) == 0;
                MemoryRecords made = batch(isTooEarly ? end - 1 : end, batchEpoch);
                compare("append as leader", log -> text(log.appendAsLeader(made, batchEpoch)));
            }
            case 3, 4, 5 -> {
                Records made = batches();
                int leader = ours.lastFetchedEpoch() + random.nextInt(3);
                compare("append as follower", log -> text(log.appendAsFollower(made, leader)));
            }
            case 6 -> {
                long offset = someOffset();
                if (isAligned(offset)) {
                    compare("truncate", log -> {
                        log.truncateTo(offset);
                        return "done";
                    });
                }
            }
            case 7 -> {
                long offset = Math.max(ours.highWatermark().offset(), someOffset());
                if (isAligned(offset)) {
                    compare("high watermark", log -> {
                        log.updateHighWatermark(new LogOffsetMetadata(offset));
                        return log.highWatermark().offset();
                    });
                }
            }
            case 8 -> {
                OffsetAndEpoch id = someId();
                compare("own snapshot", log -> writeSnapshot(log, id, true));
            }
            case 9 -> {
                if (random.nextInt(4) == 0) {
                    OffsetAndEpoch id = new OffsetAndEpoch(
                        disk.log.endOffset() + random.nextInt(10), ours.lastFetchedEpoch() + 1);
                    compare("fetched snapshot", log -> writeSnapshot(log, id, false));
                    compare("truncate to snapshot", RaftLog::truncateToLatestSnapshot);
                    epoch = Math.max(epoch, id.epoch());
                }
            }
            case 10 -> {
                if (!disk.checkpoints.isEmpty()) {
                    OffsetAndEpoch id = random.nextBoolean()
                        ? disk.checkpoints.lastKey() : disk.checkpoints.firstKey();
                    // Whether it says that it deleted something depends on the segments.
                    compare("delete before snapshot", log -> {
                        log.deleteBeforeSnapshot(id);
                        return log.startOffset();
                    });
                }
            }
            case 11 -> {
                epoch = ours.lastFetchedEpoch() + 1;
                compare("leader epoch", log -> {
                    log.initializeLeaderEpoch(epoch);
                    return "done";
                });
            }
            case 12 -> compare("flush", log -> {
                log.flush(false);
                return "done";
            });
            default -> {
                if (random.nextInt(4) == 0) {
                    reopen();
                }
            }
        }
    }

    private boolean isAligned(long offset) {
        return offset == disk.log.endOffset()
            || disk.log.batches().stream().anyMatch(batch -> batch.baseOffset() == offset);
    }

    private void reopen() throws Exception {
        long start = disk.log.startOffset();
        boolean isDamaged = !disk.log.batches().isEmpty() && random.nextBoolean();
        if (isDamaged) {
            damage();
        }
        open(); // The other was not closed, as after a crash.
        counts.merge(isDamaged ? "open, rotten" : "open", 1, Integer::sum);
        if (kafkas.startOffset() < start) {
            // Its only segment was not deleted, where each of ours ends at a checkpoint.
            kafkas.updateHighWatermark(new LogOffsetMetadata(kafkas.endOffset().offset()));
            kafkas.deleteBeforeSnapshot(disk.checkpoints.firstKey());
            ours.updateHighWatermark(new LogOffsetMetadata(ours.endOffset().offset()));
        }
    }

    /** Flips a bit in both logs, but none of a base offset. */
    private void damage() throws Exception {
        int index = random.nextInt(disk.log.batches().size());
        StoredBatch batch = disk.log.batches().get(index);
        int at = Long.BYTES + random.nextInt(batch.bytes().length - Long.BYTES);
        disk.log.rot(batch.baseOffset(), at, 1);
        for (Path segment : segments()) {
            byte[] content = Files.readAllBytes(segment);
            int found = indexOf(content, batch.bytes());
            if (found >= 0) {
                content[found + at] ^= 1;
                Files.write(segment, content);
                return;
            }
        }
        throw new AssertionError("Kafka's log does not have the batch at " + batch.baseOffset());
    }

    private static int indexOf(byte[] content, byte[] part) {
        for (int i = 0; i + part.length <= content.length; i++) {
            if (Arrays.equals(content, i, i + part.length, part, 0, part.length)) {
                return i;
            }
        }
        return -1;
    }

    private List<Path> segments() throws Exception {
        try (Stream<Path> files = Files.list(folder.toPath())) {
            return files.filter(file -> file.toString().endsWith(".log")).toList();
        }
    }

    private boolean check() {
        compare("start", RaftLog::startOffset);
        compare("end", log -> log.endOffset().offset());
        compare("high watermark", log -> log.highWatermark().offset());
        compare("last epoch", RaftLog::lastFetchedEpoch);
        compare("latest snapshot", RaftLog::latestSnapshotId);
        compare("earliest snapshot", RaftLog::earliestSnapshotId);
        if (answer(ours, RaftLog::lastFetchedEpoch).endsWith("Exception")) {
            return false; // No client could go on with it.
        }
        int asked = random.nextInt(ours.lastFetchedEpoch() + 2);
        compare("end of epoch", log -> log.endOffsetForEpoch(asked));
        long offset = someOffset();
        compare("is valid", log -> log.validateOffsetAndEpoch(offset, asked));
        Isolation isolation = random.nextBoolean() ? Isolation.COMMITTED : Isolation.UNCOMMITTED;
        int bytes = random.nextInt(600);
        compare("read", log -> text(log.read(offset, isolation, bytes)));
        return true;
    }

    private void run(int steps) throws Exception {
        for (step = 0; step < steps; step++) {
            act();
            if (!check()) {
                return;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        long first = Long.parseLong(arguments[1]);
        int seeds = Integer.parseInt(arguments[2]);
        int steps = Integer.parseInt(arguments[3]);
        Map<String, Integer> counts = new HashMap<>();
        for (long seed = first; seed < first + seeds; seed++) {
            File folder = new File(arguments[0], "seed-" + seed + "/__cluster_metadata-0");
            try {
                new LogComparison(folder, seed, counts).run(steps);
            } catch (Throwable error) {
                throw new AssertionError("seed " + seed, error);
            }
            try (Stream<Path> files = Files.walk(folder.getParentFile().toPath())) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
        new TreeMap<>(counts).forEach((what, count) -> System.out.println(count + " " + what));
    }
}
