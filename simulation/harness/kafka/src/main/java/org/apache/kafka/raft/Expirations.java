package org.apache.kafka.raft;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.utils.Time;

/** Lets requests that wait on a client fail at their time, in the order of those times. */
final class Expirations implements ExpirationService {
    static final long NEVER_MS = Long.MAX_VALUE;

    private record Entry(long atMs, long number, CompletableFuture<?> future) { }

    private final Time time;
    private final PriorityQueue<Entry> entries = new PriorityQueue<>(
        Comparator.comparingLong(Entry::atMs).thenComparingLong(Entry::number));
    private long nextNumber;

    Expirations(Time time) {
        this.time = time;
    }

    @Override public <T> CompletableFuture<T> failAfter(long timeoutMs) {
        CompletableFuture<T> future = new CompletableFuture<>();
        long nowMs = time.milliseconds();
        if (timeoutMs < Integer.MAX_VALUE) { // What waits longer waits for ever.
            entries.add(new Entry(nowMs + timeoutMs, nextNumber++, future));
        }
        return future;
    }

    long nextMs() {
        while (!entries.isEmpty() && entries.peek().future.isDone()) {
            entries.poll();
        }
        return entries.isEmpty() ? NEVER_MS : entries.peek().atMs;
    }

    void expire() {
        while (nextMs() <= time.milliseconds()) {
            entries.poll().future.completeExceptionally(new TimeoutException("its time is over"));
        }
    }
}
