package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.record.internal.MemoryRecords;
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
    private final StoredLog stored;
    private final LeaderEpochs epochs;
    private final Faults faults;
    private final Events events;
    private final Checkpoints checkpoints;
    private final NodeSettings settings;
    private final LogWriter writer;
    private LogOffsetMetadata highWatermark;
    private long reportedHighWatermark = -1;

    /** Opens what the disk has. */
    VirtualLog(Disk disk, Faults faults, Events events, NodeSettings settings, long seed) {
        this.disk = disk;
        this.stored = disk.log;
        this.epochs = disk.leaderEpochs;
        this.faults = faults;
        this.events = events;
        this.settings = settings;
        this.writer = new LogWriter(disk, faults, events, seed);
        this.checkpoints = new Checkpoints(disk, faults, events);
        try {
            Recovery.run(stored, faults);
        } catch (Faults.DiskError error) {
            throw storageError("open", error);
        }
        events.recovered(stored.startOffset(), stored.endOffset(), stored.durableEndOffset(),
            stored.crc32c(), disk.election == null ? null : disk.election.state());
        checkpoints.tellUntold();
        epochs.recover(stored.batches(), stored.startOffset(), stored.endOffset());
        highWatermark = new LogOffsetMetadata(stored.startOffset());
        checkpoints.deleteBefore(stored.startOffset());
        truncateToLatestSnapshot();
    }

    private void beforeChange(String what) {
        faults.beforeEffect();
        try {
            faults.beforeOperation();
        } catch (Faults.DiskError error) {
            throw storageError(what, error);
        }
    }

    static KafkaStorageException storageError(String what, Faults.DiskError error) {
        return new KafkaStorageException("cannot " + what + " the log", error);
    }

    // ---- appends -------------------------------------------------------------------------------

    @Override public LogAppendInfo appendAsLeader(Records records, int epoch) {
        return writer.append((MemoryRecords) records, epoch, true);
    }

    @Override public LogAppendInfo appendAsFollower(Records records, int epoch) {
        return writer.append((MemoryRecords) records, epoch, false);
    }

    /** What releases before 4.1 call: they do not compare the epochs of the batches. */
    public LogAppendInfo appendAsFollower(Records records) {
        return writer.append((MemoryRecords) records, Integer.MAX_VALUE, false);
    }

    @Override public void flush(boolean forceFlushActiveSegment) {
        if (stored.isFlushed()) {
            return;
        }
        beforeChange("flush");
        stored.flush();
        events.flushed(stored.endOffset());
    }

    // ---- reads ---------------------------------------------------------------------------------

    /** What releases before 4.3 call: the limit is configured for the log. */
    public LogFetchInfo read(long startOffset, Isolation isolation) {
        return read(startOffset, isolation, settings.fetchMaxBytes());
    }

    @Override public LogFetchInfo read(long startOffset, Isolation isolation, int maxBytes) {
        if (startOffset < stored.startOffset() || startOffset > stored.endOffset()) {
            throw new OffsetOutOfRangeException("offset " + startOffset + ", where the log has "
                + stored.startOffset() + " to " + stored.endOffset());
        }
        long until = isolation == Isolation.COMMITTED ? highWatermark.offset()
            : stored.endOffset();
        int first = stored.indexOf(startOffset);
        ByteBuffer content = stored.read(first, until, maxBytes);
        long offset = startOffset == until || first == stored.batches().size() ? startOffset
            : stored.batches().get(first).baseOffset();
        return new LogFetchInfo(content == null ? MemoryRecords.EMPTY
            : MemoryRecords.readableRecords(content), at(offset));
    }

    private static LogOffsetMetadata at(long offset) {
        return new LogOffsetMetadata(offset, Optional.of(new Position(offset)));
    }

    // ---- offsets and epochs --------------------------------------------------------------------

    @Override public long startOffset() {
        return stored.startOffset();
    }

    @Override public LogOffsetMetadata endOffset() {
        return at(stored.endOffset());
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
        OffsetAndEpoch snapshot = latestSnapshotId().orElse(null);
        if (epochs.latest().isPresent() || snapshot == null) {
            return epochs.latest().orElse(0);
        }
        if (snapshot.offset() != stored.startOffset() || snapshot.offset() != stored.endOffset()) {
            throw new KafkaException("the log has no epoch, and begins at " + stored.startOffset()
                + " and ends at " + stored.endOffset() + " beside the snapshot " + snapshot);
        }
        return snapshot.epoch();
    }

    @Override public OffsetAndEpoch endOffsetForEpoch(int epoch) {
        OffsetAndEpoch found = epochs.endOffsetOf(epoch, stored.endOffset());
        if (found == null) {
            return new OffsetAndEpoch(stored.endOffset(), lastFetchedEpoch());
        }
        // Of epochs before the log, only the end of the earliest checkpoint is known.
        Optional<OffsetAndEpoch> earliest = earliestSnapshotId();
        return earliest.isPresent() && found.epoch() == epoch
            && found.offset() == earliest.get().offset() ? earliest.get() : found;
    }

    @Override public void initializeLeaderEpoch(int epoch) {
        epochs.assign(epoch, stored.endOffset());
    }

    // ---- cuts ----------------------------------------------------------------------------------

    @Override public void truncateTo(long offset) {
        if (offset < highWatermark.offset()) {
            throw new IllegalArgumentException("cannot truncate to offset " + offset
                + ", below the high watermark " + highWatermark.offset());
        }
        if (offset < stored.endOffset()) {
            beforeChange("truncate");
            stored.keep(stored.indexOf(offset));
            events.truncated(stored.endOffset());
        }
        epochs.truncateFromEnd(offset);
    }

    @Override public boolean truncateToLatestSnapshot() {
        OffsetAndEpoch latest = latestSnapshotId().orElse(null);
        int epoch = epochs.latest().orElse(0);
        if (latest == null || latest.epoch() < epoch
                || latest.epoch() == epoch && latest.offset() <= stored.endOffset()) {
            return false;
        }
        beforeChange("replace");
        stored.restartAt(latest.offset());
        epochs.clear();
        highWatermark = at(latest.offset());
        events.reset(latest);
        checkpoints.deleteBefore(latest);
        return true;
    }

    @Override public boolean deleteBeforeSnapshot(OffsetAndEpoch id) {
        if (!checkpoints.has(id) || id.offset() <= stored.startOffset()
                || id.offset() > disk.checkpoints.lastKey().offset()) {
            return false;
        }
        if (id.offset() > highWatermark.offset()) {
            throw new OffsetOutOfRangeException("the log cannot begin at " + id.offset()
                + ", above the high watermark " + highWatermark.offset());
        }
        beforeChange("delete segments of");
        boolean isDeleted = stored.moveStart(id.offset());
        epochs.truncateFromStart(id.offset());
        events.startMoved(id);
        return checkpoints.deleteBefore(id) | isDeleted;
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
            if (stored.size() + checkpointsSize <= settings.retentionBytes()
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
        if (id.offset() < stored.startOffset()) {
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
