package org.apache.kafka.raft;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeMap;
import org.apache.kafka.server.common.OffsetAndEpoch;

/** Where each epoch begins in the log, as Kafka keeps it beside a log. */
final class LeaderEpochs {
    private final TreeMap<Integer, Long> startOffsets = new TreeMap<>();

    OptionalInt latest() {
        return startOffsets.isEmpty() ? OptionalInt.empty()
            : OptionalInt.of(startOffsets.lastKey());
    }

    /** Makes the file fit the log that was opened; what it knows is not read again. */
    void recover(List<StoredBatch> batches, long startOffset, long endOffset) {
        for (StoredBatch batch : batches) {
            if (startOffsets.isEmpty() || batch.epoch() > startOffsets.lastKey()) {
                assign(batch.epoch(), batch.baseOffset());
            }
        }
        truncateFromEnd(endOffset);
        truncateFromStart(startOffset);
    }

    /** Notes that a batch or a leader of this epoch begins here. */
    void assign(int epoch, long startOffset) {
        Map.Entry<Integer, Long> last = startOffsets.lastEntry();
        if (last != null && last.getKey() == epoch && last.getValue() <= startOffset) {
            return;
        }
        // Epochs and offsets rise together: what is not before the new entry goes.
        while (last != null && (last.getKey() >= epoch || last.getValue() >= startOffset)) {
            startOffsets.pollLastEntry();
            last = startOffsets.lastEntry();
        }
        startOffsets.put(epoch, startOffset);
    }

    /** Where the largest epoch up to this one ends; null where no later epoch is known. */
    OffsetAndEpoch endOffsetOf(int epoch, long logEndOffset) {
        if (!startOffsets.isEmpty() && startOffsets.lastKey() == epoch) {
            return new OffsetAndEpoch(logEndOffset, epoch);
        }
        Map.Entry<Integer, Long> next = startOffsets.higherEntry(epoch);
        if (next == null) {
            return null;
        }
        Integer floor = startOffsets.floorKey(epoch);
        return new OffsetAndEpoch(next.getValue(), floor == null ? epoch : floor);
    }

    void truncateFromEnd(long endOffset) {
        startOffsets.values().removeIf(startOffset -> startOffset >= endOffset);
    }

    /** The epoch that the new start is in begins there now; earlier ones are forgotten. */
    void truncateFromStart(long startOffset) {
        Integer epochAtStart = null;
        Iterator<Map.Entry<Integer, Long>> entries = startOffsets.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry<Integer, Long> entry = entries.next();
            if (entry.getValue() > startOffset) {
                break;
            }
            epochAtStart = entry.getKey();
            entries.remove();
        }
        if (epochAtStart != null) {
            startOffsets.put(epochAtStart, startOffset);
        }
    }

    void clear() {
        startOffsets.clear();
    }
}
