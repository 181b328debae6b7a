package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/**
 * The metadata log over a {@link Disk}, with the results, errors and side effects of Kafka's own.
 *
 * <p>It differs in one thing: Kafka deletes whole segments, so that the log may begin earlier again
 * after a restart. Here each checkpoint ends a segment.
 */
final class VirtualLog implements RaftLog {
    /** Where a record is. Kafka compares it, and does not look inside. */
    private record Position(long offset) implements OffsetMetadata { }

    private static final TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);

    private final Disk disk;
    private final Faults faults;
    private final Events events;
    private final Checkpoints checkpoints;
    private final NodeSettings settings;
    private final Random random; // Decides how much of a write that fails was done.
    private final LeaderEpochs epochs = new LeaderEpochs();
    private LogOffsetMetadata highWatermark;
    private long reportedHighWatermark = -1;

    /** Opens what the disk has. */
    VirtualLog(Disk disk, Faults faults, Events events, NodeSettings settings, long seed) {
        this.disk = disk;
        this.faults = faults;
        this.events = events;
        this.settings = settings;
        this.random = new Random(seed);
        this.checkpoints = new Checkpoints(disk, faults, events);
        try {
            Recovery.run(disk, faults);
        } catch (Faults.DiskError error) {
            throw storageError("open", error);
        }
        events.recovered(disk.startOffset, disk.endOffset(), disk.durableEndOffset(),
            disk.crc32c(), disk.election == null ? null : disk.election.state());
        disk.batches.forEach(batch -> epochs.assign(batch.epoch(), batch.baseOffset()));
        highWatermark = new LogOffsetMetadata(disk.startOffset);
        checkpoints.deleteBefore(disk.startOffset);
        truncateToLatestSnapshot();
    }

    private static KafkaStorageException storageError(String what, Faults.DiskError error) {
        return new KafkaStorageException("cannot " + what + " the log", error);
    }

    // ---- appends -------------------------------------------------------------------------------

    @Override public LogAppendInfo appendAsLeader(Records records, int epoch) {
        return append(records, epoch, true);
    }

    @Override public LogAppendInfo appendAsFollower(Records records, int epoch) {
        return append(records, epoch, false);
    }

    /** What releases before 4.1 call: they do not compare the epochs of the batches. */
    public LogAppendInfo appendAsFollower(Records records) {
        return append(records, Integer.MAX_VALUE, false);
    }

    private LogAppendInfo append(Records records, int epoch, boolean asLeader) {
        if (records.sizeInBytes() == 0) {
            throw new IllegalArgumentException("nothing to append");
        }
        List<StoredBatch> taken = validBatches((MemoryRecords) records, epoch, asLeader);
        if (taken.isEmpty()) {
            throw new CorruptRecordException("no whole batch to append");
        }
        faults.beforeEffect();
        try {
            faults.beforeWrite();
        } catch (Faults.DiskError error) {
            writePart(taken, asLeader);
            throw storageError("append to", error);
        }
        write(taken, asLeader);
        return new LogAppendInfo(
            taken.get(0).baseOffset(), taken.get(taken.size() - 1).lastOffset());
    }

    private List<StoredBatch> validBatches(MemoryRecords records, int epoch, boolean asLeader) {
        List<StoredBatch> taken = new ArrayList<>();
        long end = disk.endOffset();
        for (MutableRecordBatch batch : records.batches()) {
            if (asLeader && batch.partitionLeaderEpoch() != epoch) {
                throw new InvalidRecordException("a batch of epoch "
                    + batch.partitionLeaderEpoch() + ", where epoch " + epoch + " leads");
            }
            if (!asLeader && batch.partitionLeaderEpoch() > epoch) {
                break; // A follower takes what its leader has from earlier epochs.
            }
            if (asLeader ? batch.baseOffset() != end : batch.baseOffset() < end) {
                throw new IllegalStateException("a batch at offset " + batch.baseOffset()
                    + ", where the log ends at " + end);
            }
            if (!batch.isValid()) {
                throw new CorruptRecordException("the CRC of the batch at "
                    + batch.baseOffset() + " is wrong");
            }
            taken.add(StoredBatch.copyOf(batch));
            end = batch.lastOffset() + 1;
        }
        return taken;
    }

    private void write(List<StoredBatch> written, boolean asLeader) {
        for (StoredBatch batch : written) {
            disk.batches.add(batch);
            epochs.assign(batch.epoch(), batch.baseOffset());
        }
        events.appended(asLeader, written);
    }

    /** A write that fails or that finds the disk full may have written its first bytes. */
    private void writePart(List<StoredBatch> batches, boolean asLeader) {
        int size = batches.stream().mapToInt(batch -> batch.bytes().length).sum();
        int left = random.nextInt(size);
        int whole = 0;
        while (left >= batches.get(whole).bytes().length) {
            left -= batches.get(whole++).bytes().length;
        }
        if (whole > 0) {
            write(batches.subList(0, whole), asLeader);
        }
        disk.tornBytes = Arrays.copyOf(batches.get(whole).bytes(), left);
    }

    @Override public void flush(boolean forceFlushActiveSegment) {
        if (disk.durableBatchCount == disk.batches.size()) {
            return;
        }
        faults.beforeEffect();
        try {
            faults.beforeOperation();
        } catch (Faults.DiskError error) {
            throw storageError("flush", error);
        }
        disk.flush();
        events.flushed(disk.endOffset());
    }

    // ---- reads ---------------------------------------------------------------------------------

    /** What releases before 4.3 call: the limit is configured for the log. */
    public LogFetchInfo read(long startOffset, Isolation isolation) {
        return read(startOffset, isolation, settings.fetchMaxBytes());
    }

    @Override public LogFetchInfo read(long startOffset, Isolation isolation, int maxBytes) {
        if (startOffset < disk.startOffset || startOffset > disk.endOffset()) {
            throw new OffsetOutOfRangeException("offset " + startOffset + ", where the log has "
                + disk.startOffset + " to " + disk.endOffset());
        }
        long until = isolation == Isolation.COMMITTED ? highWatermark.offset() : disk.endOffset();
        int first = indexOf(startOffset);
        int last = first;
        int size = 0;
        // As a read of a file does it: the first batch whole, the last one up to the limit.
        for (int limit = maxBytes; last < disk.batches.size() && size < limit; last++) {
            StoredBatch batch = disk.batches.get(last);
            if (batch.baseOffset() >= until) {
                break;
            }
            if (last == first) {
                limit = Math.max(maxBytes, batch.bytes().length);
            }
            size += Math.min(batch.bytes().length, limit - size);
        }
        if (last == first) {
            return new LogFetchInfo(MemoryRecords.EMPTY, at(startOffset));
        }
        return new LogFetchInfo(
            MemoryRecords.readableRecords(content(first, last, size)),
            at(disk.batches.get(first).baseOffset()));
    }

    private ByteBuffer content(int first, int last, int size) {
        if (last == first + 1) {
            return ByteBuffer.wrap(disk.batches.get(first).bytes());
        }
        ByteBuffer content = ByteBuffer.allocate(size);
        for (int i = first; i < last; i++) {
            byte[] bytes = disk.batches.get(i).bytes();
            content.put(bytes, 0, Math.min(bytes.length, content.remaining()));
        }
        return content.flip();
    }

    /** Of the batch that has the offset, or of the next one. */
    private int indexOf(long offset) {
        int low = 0;
        int high = disk.batches.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (disk.batches.get(middle).lastOffset() < offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private static LogOffsetMetadata at(long offset) {
        return new LogOffsetMetadata(offset, Optional.of(new Position(offset)));
    }

    // ---- offsets and epochs --------------------------------------------------------------------

    @Override public long startOffset() {
        return disk.startOffset;
    }

    @Override public LogOffsetMetadata endOffset() {
        return at(disk.endOffset());
    }

    @Override public LogOffsetMetadata highWatermark() {
        return highWatermark;
    }

    @Override public void updateHighWatermark(LogOffsetMetadata offset) {
        highWatermark = offset;
        reportHighWatermark(offset.offset());
    }

    /** Tells the simulator, unless it knows; -1: the client does not know it any more. */
    void reportHighWatermark(long offset) {
        if (offset != reportedHighWatermark) {
            reportedHighWatermark = offset;
            events.highWatermark(offset);
        }
    }

    @Override public int lastFetchedEpoch() {
        return epochs.latest().orElse(latestSnapshotId().map(OffsetAndEpoch::epoch).orElse(0));
    }

    @Override public OffsetAndEpoch endOffsetForEpoch(int epoch) {
        OffsetAndEpoch found = epochs.endOffsetOf(epoch, disk.endOffset());
        if (found == null) {
            return new OffsetAndEpoch(disk.endOffset(), lastFetchedEpoch());
        }
        // Of epochs before the log, only the end of the earliest checkpoint is known.
        Optional<OffsetAndEpoch> earliest = earliestSnapshotId();
        return earliest.isPresent() && found.epoch() == epoch
            && found.offset() == earliest.get().offset() ? earliest.get() : found;
    }

    @Override public void initializeLeaderEpoch(int epoch) {
        epochs.assign(epoch, disk.endOffset());
    }

    // ---- cuts ----------------------------------------------------------------------------------

    @Override public void truncateTo(long offset) {
        if (offset < highWatermark.offset()) {
            throw new IllegalArgumentException("cannot truncate to offset " + offset
                + ", below the high watermark " + highWatermark.offset());
        }
        if (offset < disk.endOffset()) {
            faults.beforeEffect();
            try {
                faults.beforeOperation();
            } catch (Faults.DiskError error) {
                throw storageError("truncate", error);
            }
            disk.keepBatches(indexOf(offset));
            events.truncated(disk.endOffset());
        }
        epochs.truncateFromEnd(offset);
    }

    @Override public boolean truncateToLatestSnapshot() {
        OffsetAndEpoch latest = latestSnapshotId().orElse(null);
        int epoch = epochs.latest().orElse(0);
        if (latest == null || latest.epoch() < epoch
                || latest.epoch() == epoch && latest.offset() <= disk.endOffset()) {
            return false;
        }
        faults.beforeEffect();
        try {
            faults.beforeOperation();
        } catch (Faults.DiskError error) {
            throw storageError("replace", error);
        }
        disk.restartLogAt(latest.offset());
        epochs.clear();
        highWatermark = at(latest.offset());
        events.reset(latest);
        checkpoints.deleteBefore(latest);
        return true;
    }

    @Override public boolean deleteBeforeSnapshot(OffsetAndEpoch id) {
        if (!checkpoints.has(id) || id.offset() <= disk.startOffset
                || id.offset() > disk.checkpoints.lastKey().offset()) {
            return false;
        }
        if (id.offset() > highWatermark.offset()) {
            throw new OffsetOutOfRangeException("the log cannot begin at " + id.offset()
                + ", above the high watermark " + highWatermark.offset());
        }
        faults.beforeEffect();
        try {
            faults.beforeOperation();
        } catch (Faults.DiskError error) {
            throw storageError("delete segments of", error);
        }
        int dropped = indexOf(id.offset());
        disk.batches.subList(0, dropped).clear();
        disk.durableBatchCount = Math.max(0, disk.durableBatchCount - dropped);
        disk.startOffset = id.offset();
        epochs.truncateFromStart(id.offset());
        events.startMoved(id);
        checkpoints.deleteBefore(id);
        return true;
    }

    /** Deletes checkpoints, oldest first, while they and the log are larger than allowed. */
    @Override public boolean maybeClean() {
        if (settings.retentionBytes() < 0) {
            return false;
        }
        long checkpointsSize = disk.checkpoints.values().stream()
            .mapToLong(checkpoint -> checkpoint.content().length).sum();
        boolean isCleaned = false;
        Iterator<OffsetAndEpoch> ids = List.copyOf(disk.checkpoints.keySet()).iterator();
        OffsetAndEpoch id = ids.hasNext() ? ids.next() : null;
        while (ids.hasNext()) {
            OffsetAndEpoch next = ids.next();
            int size = disk.checkpoints.get(id).content().length;
            if (disk.logSize() + checkpointsSize <= settings.retentionBytes()
                    || !deleteBeforeSnapshot(next)) {
                break;
            }
            checkpointsSize -= size;
            isCleaned = true;
            id = next;
        }
        return isCleaned;
    }

    // ---- checkpoints ---------------------------------------------------------------------------

    @Override public Optional<RawSnapshotWriter> createNewSnapshot(OffsetAndEpoch id) {
        if (id.offset() < disk.startOffset) {
            return Optional.empty();
        }
        if (id.offset() > highWatermark.offset()) {
            throw new IllegalArgumentException("a snapshot up to " + id
                + ", above the high watermark " + highWatermark.offset());
        }
        ValidOffsetAndEpoch nearest = validateOffsetAndEpoch(id.offset(), id.epoch());
        if (nearest.kind() != ValidOffsetAndEpoch.Kind.VALID) {
            throw new IllegalArgumentException(
                "a snapshot up to " + id + ", where the log has " + nearest);
        }
        long batchOffset = read(id.offset(), Isolation.COMMITTED, 1).startOffsetMetadata.offset();
        if (batchOffset != id.offset()) {
            throw new IllegalArgumentException("a snapshot up to " + id
                + ", inside the batch at " + batchOffset);
        }
        return checkpoints.create(id, true);
    }

    /** Kafka calls this one itself for what it fetches. */
    @Override public Optional<RawSnapshotWriter> createNewSnapshotUnchecked(OffsetAndEpoch id) {
        return checkpoints.create(id, false);
    }

    @Override public Optional<RawSnapshotReader> readSnapshot(OffsetAndEpoch id) {
        return checkpoints.read(id);
    }

    @Override public Optional<RawSnapshotReader> latestSnapshot() {
        return latestSnapshotId().flatMap(checkpoints::read);
    }

    @Override public Optional<OffsetAndEpoch> latestSnapshotId() {
        return disk.checkpoints.isEmpty() ? Optional.empty()
            : Optional.of(disk.checkpoints.lastKey());
    }

    @Override public Optional<OffsetAndEpoch> earliestSnapshotId() {
        return disk.checkpoints.isEmpty() ? Optional.empty()
            : Optional.of(disk.checkpoints.firstKey());
    }

    @Override public void onSnapshotFrozen(OffsetAndEpoch id) { }

    @Override public TopicPartition topicPartition() {
        return PARTITION;
    }

    @Override public Uuid topicId() {
        return Uuid.METADATA_TOPIC_ID;
    }
}
