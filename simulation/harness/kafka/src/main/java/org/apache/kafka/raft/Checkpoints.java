package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.record.internal.UnalignedMemoryRecords;
import org.apache.kafka.common.record.internal.UnalignedRecords;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/** Writes, reads and deletes the checkpoints on a {@link Disk}. */
final class Checkpoints {
    private final Disk disk;
    private final Faults faults;
    private final Events events;

    Checkpoints(Disk disk, Faults faults, Events events) {
        this.disk = disk;
        this.faults = faults;
        this.events = events;
    }

    boolean has(OffsetAndEpoch id) {
        return disk.checkpoints.containsKey(id);
    }

    Optional<RawSnapshotReader> read(OffsetAndEpoch id) {
        Disk.Checkpoint checkpoint = disk.checkpoints.get(id);
        return checkpoint == null ? Optional.empty()
            : Optional.of(new Reader(id, checkpoint.content()));
    }

    /** Begins one; nothing where there is one of this id. */
    Optional<RawSnapshotWriter> create(OffsetAndEpoch id, boolean isOwn) {
        return has(id) ? Optional.empty() : Optional.of(new Writer(id, isOwn));
    }

    /** Tells of those that were stored in the last moment of an earlier life. */
    void tellUntold() {
        disk.untold.keySet().retainAll(disk.checkpoints.keySet());
        disk.untold.forEach((id, isOwn) ->
            events.snapshotStored(id, isOwn, disk.checkpoints.get(id).content()));
        disk.untold.clear();
    }

    /** Deletes all that are earlier than this one; false: there are none. */
    boolean deleteBefore(OffsetAndEpoch id) {
        List<OffsetAndEpoch> ids = List.copyOf(disk.checkpoints.headMap(id).keySet());
        ids.forEach(this::delete);
        return !ids.isEmpty();
    }

    /** Deletes all that end before this offset, of whatever epoch: ids are in order of epochs. */
    void deleteBefore(long offset) {
        List.copyOf(disk.checkpoints.keySet()).stream()
            .filter(id -> id.offset() < offset).forEach(this::delete);
    }

    private void delete(OffsetAndEpoch id) {
        faults.beforeEffect();
        try {
            faults.beforeOperation();
        } catch (Faults.DiskError error) {
            throw new UncheckedIOException("cannot delete the checkpoint " + id, error);
        }
        disk.checkpoints.remove(id);
        events.snapshotDeleted(id);
    }

    private record Reader(OffsetAndEpoch snapshotId, byte[] content)
            implements RawSnapshotReader {
        @Override public long sizeInBytes() {
            return content.length;
        }

        @Override public UnalignedRecords slice(long position, int size) {
            int from = Math.toIntExact(position);
            int count = Math.min(size, content.length - from);
            return new UnalignedMemoryRecords(ByteBuffer.wrap(content, from, count).slice());
        }

        @Override public Records records() {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(content));
        }
    }

    private final class Writer implements RawSnapshotWriter {
        private final OffsetAndEpoch id;
        private final boolean isOwn;
        private final ByteArrayOutputStream content = new ByteArrayOutputStream();
        private boolean isFrozen;

        Writer(OffsetAndEpoch id, boolean isOwn) {
            this.id = id;
            this.isOwn = isOwn;
        }

        @Override public OffsetAndEpoch snapshotId() {
            return id;
        }

        @Override public long sizeInBytes() {
            return content.size();
        }

        @Override public void append(MemoryRecords records) {
            append(records.buffer());
        }

        @Override public void append(UnalignedMemoryRecords records) {
            append(records.buffer());
        }

        private void append(ByteBuffer records) {
            if (isFrozen) {
                throw new IllegalStateException("the checkpoint " + id + " is complete");
            }
            // Not an operation of the disk: the file has no name yet, and the freeze will write it.
            byte[] bytes = new byte[records.remaining()];
            records.get(bytes);
            content.writeBytes(bytes);
        }

        @Override public boolean isFrozen() {
            return isFrozen;
        }

        @Override public void freeze() {
            if (isFrozen) {
                throw new IllegalStateException("the checkpoint " + id + " is complete");
            }
            faults.beforeEffect();
            byte[] bytes = content.toByteArray();
            try {
                RenamedFile.write(faults, isNamed -> {
                    disk.checkpoints.put(id, new Disk.Checkpoint(bytes, isNamed));
                    disk.untold.put(id, isOwn);
                });
            } catch (Faults.DiskError error) {
                disk.checkpoints.remove(id); // Also where only its directory was not synced.
                throw new UncheckedIOException("cannot write the checkpoint " + id, error);
            }
            isFrozen = true;
            disk.untold.remove(id);
            events.snapshotStored(id, isOwn, bytes);
        }

        @Override public void close() { }
    }
}
