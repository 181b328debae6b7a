package org.apache.kafka.raft;

import java.util.ArrayDeque;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.BiConsumer;

/** How a client exchanges messages with what is around it, where releases differ in it. */
final class Exchange {
    private Exchange() { }

    /** The messages that wait for the client, and how long it means to wait for the next. */
    static final class Queue implements RaftMessageQueue {
        private record Entry(RaftMessage message, CompletableFuture<RaftMessage> future)
            implements QueueEntry { }

        private final ArrayDeque<QueueEntry> entries = new ArrayDeque<>();
        private long waitMs;
        private boolean isAwake;

        @Override public Optional<QueueEntry> poll(long timeoutMs) {
            QueueEntry entry = entries.poll();
            waitMs = timeoutMs;
            isAwake |= entry != null;
            return Optional.ofNullable(entry);
        }

        @Override public CompletionStage<RaftMessage> add(RaftMessage message) {
            CompletableFuture<RaftMessage> response = new CompletableFuture<>();
            entries.add(new Entry(message, response));
            return response;
        }

        @Override public boolean isEmpty() {
            return entries.isEmpty();
        }

        @Override public void wakeup() {
            isAwake = true;
        }

        /** How long the client would have waited in the last poll. */
        long waitMs() {
            return waitMs;
        }

        /** Whether it was given a message or was woken since this was asked last. */
        boolean takeIsAwake() {
            boolean wasAwake = isAwake;
            isAwake = false;
            return wasAwake;
        }
    }

    /** The client's way to its peers. */
    abstract static class Channel implements NetworkChannel {
        /** Sends a request; the promise is to be kept or broken later. */
        abstract void send(RaftRequest.Outbound request,
                           CompletableFuture<RaftResponse.Inbound> promise);

        @Override public CompletionStage<RaftResponse.Inbound> send(RaftRequest.Outbound request) {
            CompletableFuture<RaftResponse.Inbound> promise = new CompletableFuture<>();
            send(request, promise);
            return promise;
        }

        @Override public void close() { }
    }

    /** Hands the client a request, and what is to be done with its response. */
    static void handle(KafkaRaftClient<?> client, RaftRequest.Inbound request,
                       BiConsumer<RaftResponse.Outbound, Throwable> onResponse) {
        client.handle(request).whenComplete(onResponse);
    }
}
