package org.apache.kafka.raft;

import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;

/** How a client exchanges messages with what is around it: up to 4.3, a request has its promise. */
final class Exchange {
    private Exchange() { }

    /** The messages that wait for the client, and how long it means to wait for the next. */
    static final class Queue implements RaftMessageQueue {
        private final ArrayDeque<RaftMessage> messages = new ArrayDeque<>();
        private long waitMs;
        private boolean isAwake;

        @Override public RaftMessage poll(long timeoutMs) {
            RaftMessage message = messages.poll();
            waitMs = timeoutMs;
            isAwake |= message != null;
            return message;
        }

        @Override public void add(RaftMessage message) {
            messages.add(message);
        }

        @Override public boolean isEmpty() {
            return messages.isEmpty();
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

        @Override public void send(RaftRequest.Outbound request) {
            send(request, request.completion);
        }

        @Override public void close() { }
    }

    /** Hands the client a request, and what is to be done with its response. */
    static void handle(KafkaRaftClient<?> client, RaftRequest.Inbound request,
                       BiConsumer<RaftResponse.Outbound, Throwable> onResponse) {
        request.completion.whenComplete(onResponse);
        client.handle(request);
    }
}
