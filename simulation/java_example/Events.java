package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.server.common.OffsetAndEpoch;

/** What a node does in a step: told when the step is over, and held against the property. */
final class Events {
    private static final List<String> ROLES = List.of(
        "unattached", "prospective", "candidate", "leader", "follower", "resigned");
    private static final int UP = 1;

    private record Event(String text, Runnable effect) { }

    private final Node node;
    private final Property property;
    private final List<Event> step = new ArrayList<>();
    private State lastState;
    private long durableEnd;

    Events(Node node, Property property) {
        this.node = node;
        this.property = property;
    }

    State lastState() {
        return lastState;
    }

    long durableEnd() {
        return durableEnd;
    }

    int position() {
        return step.size();
    }

    /** Takes events back, for what they tell of did not happen. */
    void cutTo(int position) {
        step.subList(position, step.size()).clear();
    }

    private void note(String text, Runnable effect) {
        step.add(new Event(text, effect));
    }

    void note(String text) {
        note(text, () -> { });
    }

    void recovered(long startOffset, long endOffset, long durableEndOffset, int crc32c,
                   ElectionState election) {
        note("recovers a log of " + endOffset, () -> durableEnd = durableEndOffset);
    }

    void persisted(ElectionState state) {
        note("stores epoch " + state.epoch()
            + (state.hasLeader() ? ", leader " + state.leaderIdOrSentinel() : "")
            + (state.hasVoted() ? ", voted for " + state.votedKey().id() : ""));
    }

    void appended(boolean asLeader, List<StoredBatch> batches) {
        StoredBatch last = batches.get(batches.size() - 1);
        note("log to " + (last.lastOffset() + 1) + ", epoch " + last.epoch());
    }

    void truncated(long endOffset) {
        note("cuts its log at " + endOffset,
            () -> durableEnd = Math.min(durableEnd, endOffset));
    }

    void flushed(long endOffset) {
        note("durable to " + endOffset, () -> durableEnd = endOffset);
    }

    void reset(OffsetAndEpoch snapshot) {
        note("log starts anew at " + snapshot.offset(), () -> durableEnd = snapshot.offset());
    }

    void startMoved(OffsetAndEpoch snapshot) {
        note("log starts at " + snapshot.offset());
    }

    void snapshotStored(OffsetAndEpoch snapshot, boolean isOwn, byte[] content) {
        note("has snapshot " + snapshot.offset() + "-" + snapshot.epoch());
    }

    void snapshotDeleted(OffsetAndEpoch snapshot) {
        note("deletes snapshot " + snapshot.offset() + "-" + snapshot.epoch());
    }

    void highWatermark(long offset) {
        if (offset >= 0) { // Else it does not know any more.
            note("high watermark " + offset, () -> property.highWatermark(node, offset));
        }
    }

    void committed(long endOffset) {
        note("its state machine reads to " + endOffset);
    }

    void loaded(OffsetAndEpoch snapshot) {
        note("its state machine loads snapshot " + snapshot.offset() + "-" + snapshot.epoch());
    }

    void leader(int epoch, int leaderId) {
        if (leaderId == node.id) {
            note("its state machine is told to lead epoch " + epoch);
        }
    }

    void sent(long correlation, int port, short apiKey, short version, ApiMessage body) {
        int peer = port - node.settings.portBase();
        note("sends " + ApiKeys.forId(apiKey) + " to node " + peer, () -> {
            node.waiting.add(new Node.Request(correlation, peer, apiKey, version));
            property.sent(node, body);
        });
    }

    void unsendable(long correlation, int port, short apiKey) {
        sent(correlation, port, apiKey, (short) 0, null);
    }

    void answered(long token, ApiMessage body, short version) {
        note("answers " + ApiKeys.forId(body.apiKey()));
    }

    void dropped(long token, String reason) {
        note("does not answer: " + reason);
    }

    void took(long appendId, long baseOffset, long lastOffset) {
        note("takes the records as offsets " + baseOffset + " to " + lastOffset);
    }

    void refused(long appendId, String reason) {
        note("refuses the records: " + reason);
    }

    void voters(long offset, ApiMessage record) {
        note("acts on the voters of " + (offset < 0 ? "its start" : "offset " + offset));
    }

    void upgraded(int level, String error) {
        note("kraft.version " + level + (error.isEmpty() ? " is taken" : " is refused: " + error));
    }

    void log(long startOffset, List<StoredBatch> batches) { }

    void fatal(String text) {
        note("ends with an error of its own: " + text, () -> property.fatal(node, text));
    }

    /** How a node is at the end of a step. */
    record State(int status, int role, int epoch, int leaderId, ReplicaKey voted,
                 long highWatermark, long logStart, long logEnd, long durableEnd,
                 long deadlineUs, boolean isVoter, int kraftVersion) { }

    /** Ends a step. */
    void writeState(State state) {
        State before = lastState;
        lastState = state;
        List<Event> events = List.copyOf(step);
        step.clear();
        events.forEach(event -> System.out.println("      " + event.text));
        if (state.status == UP && (before == null || before.status != UP
                || before.role != state.role || before.epoch != state.epoch)) {
            System.out.println("      is " + ROLES.get(state.role) + " of epoch " + state.epoch);
        }
        events.forEach(event -> event.effect.run());
        if (state.status == UP) {
            property.stepped(node, node.host.life);
        }
    }
}
