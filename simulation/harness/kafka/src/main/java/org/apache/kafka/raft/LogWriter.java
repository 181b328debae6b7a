package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;

/** Checks what is to be appended to the log as Kafka does it, and writes it. */
final class LogWriter {
    private final StoredLog log;
    private final LeaderEpochs epochs;
    private final Faults faults;
    private final Events events;
    private final Random random; // Decides how much of a write that fails was done.

    LogWriter(Disk disk, Faults faults, Events events, long seed) {
        this.log = disk.log;
        this.epochs = disk.leaderEpochs;
        this.faults = faults;
        this.events = events;
        this.random = new Random(seed);
    }

    LogAppendInfo append(MemoryRecords records, int epoch, boolean asLeader) {
        if (records.sizeInBytes() == 0) {
            throw new IllegalArgumentException("nothing to append");
        }
        List<StoredBatch> taken = validBatches(records, epoch, asLeader);
        if (taken.isEmpty()) {
            throw new CorruptRecordException("no whole batch to append");
        }
        faults.beforeEffect();
        try {
            faults.beforeWrite();
        } catch (Faults.DiskError error) {
            writePart(taken, asLeader);
            throw VirtualLog.storageError("append to", error);
        }
        write(taken, asLeader);
        return new LogAppendInfo(
            taken.get(0).baseOffset(), taken.get(taken.size() - 1).lastOffset());
    }

    private List<StoredBatch> validBatches(MemoryRecords records, int epoch, boolean asLeader) {
        List<StoredBatch> taken = new ArrayList<>();
        long end = log.endOffset();
        for (MutableRecordBatch batch : records.batches()) {
            if (asLeader && batch.partitionLeaderEpoch() != epoch) {
                throw new InvalidRecordException("a batch of epoch "
                    + batch.partitionLeaderEpoch() + ", where epoch " + epoch + " leads");
            }
            if (!asLeader && batch.partitionLeaderEpoch() > epoch) {
                break; // A follower takes what its leader has from earlier epochs.
            }
            if (batch.baseOffset() < end) {
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
            log.append(batch);
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
        log.appendTorn(Arrays.copyOf(batches.get(whole).bytes(), left));
    }
}
