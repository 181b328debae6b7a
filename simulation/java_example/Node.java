package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.server.common.OffsetAndEpoch;

/**
 * A node that runs Kafka's raft client. Everything that reaches it is a call here; its peers that
 * are not in this file are played by such calls. Times are microseconds of its clock.
 */
final class Node {
    /** A request of the node that has no reply yet. */
    record Request(long correlation, int peer, short apiKey, short version) { }

    final int id;
    final NodeSettings settings;
    final HostedNode host;
    final List<Request> waiting = new ArrayList<>(); // The oldest first.
    private final Property property;
    private final Events events;
    private long nextToken;

    Node(int id, Property property, NodeSettings settings) {
        this.id = id;
        this.settings = settings;
        this.property = property;
        this.events = new Events(this, property);
        this.host = new HostedNode(id, settings, events);
    }

    /** What it showed of itself at the end of its last step. */
    Events.State state() {
        return events.lastState();
    }

    /** The offset up to which its log is on the disk, as far as the step is told. */
    long durableEnd() {
        return events.durableEnd();
    }

    // ---- its life ------------------------------------------------------------------------------

    /** The seed is that of its random numbers: they decide how long it waits for an election. */
    void start(long nowUs, long seed) {
        waiting.clear();
        if (!host.start(nowUs, seed)) {
            throw new NotFollowed("node " + id + " is up already, or has no power");
        }
        host.writeState();
    }

    /** Its process ends; what it has written stays. */
    void kill() {
        host.kill();
        host.writeState();
    }

    /** Its machine has no power: of what was not synced, only so many batches and bytes stay. */
    void losePower(int keptBatches, int tornBytes, boolean keepsFiles) {
        host.losePower(keptBatches, tornBytes, keepsFiles);
        host.writeState();
    }

    /** The power will go before the effect after this many more: a write, a message, a callback. */
    void losePowerAfter(int effects) {
        host.faults.cutPowerAfter(effects);
    }

    /** The operation of the disk with this number from now on will fail, or each from now on. */
    void failDisk(int fault, int operations) {
        host.faults.failDisk(fault, operations);
    }

    /** The highest version of an API that it may send to a peer. */
    void cap(int peer, ApiKeys api, int maxVersion) {
        host.caps.set(peer, api.id, (short) maxVersion);
    }

    /** Puts a checkpoint on its disk, as the formatting of a node does. */
    void install(long endOffset, int epoch, byte[] content) {
        host.install(new OffsetAndEpoch(endOffset, epoch), content);
    }

    // ---- what reaches it -----------------------------------------------------------------------

    /** The time has come for which its thread waits. */
    void tick(long nowUs) {
        step(nowUs, Life::expire);
        if (host.isUp()) {
            property.woken(this, nowUs);
        }
    }

    /** An older release is asked in its own highest version. */
    void receive(long nowUs, int version, ApiMessage request) {
        short known = (short) Math.min(version, request.highestSupportedVersion());
        byte[] body = bytesOf(request, known);
        long token = nextToken++;
        property.received(this);
        step(nowUs, life -> life.requests.handle(token, request.apiKey(), known, body));
    }

    /** A reply to its newest request of this kind to that peer. */
    void receiveReply(long nowUs, int peer, ApiMessage reply) {
        Request asked = asked(peer, reply.apiKey());
        byte[] body = bytesOf(reply, asked.version);
        step(nowUs,
            life -> life.peers.reply(asked.correlation, asked.apiKey, asked.version, body));
    }

    /** Its newest request of this kind to that peer has come to nothing. */
    void failRequest(long nowUs, int peer, ApiKeys api, boolean isUnsupported) {
        Request asked = asked(peer, api.id);
        step(nowUs, life -> life.peers.fail(asked.correlation, isUnsupported));
    }

    private Request asked(int peer, short apiKey) {
        for (int i = waiting.size() - 1; i >= 0; i--) {
            if (waiting.get(i).peer == peer && waiting.get(i).apiKey == apiKey) {
                return waiting.remove(i);
            }
        }
        throw new NotFollowed("node " + id + " has no " + ApiKeys.forId(apiKey)
            + " under way to node " + peer);
    }

    /** The state machine appends records. */
    void append(long nowUs, int epoch, String... records) {
        List<byte[]> values = Arrays.stream(records)
            .map(record -> record.getBytes(StandardCharsets.UTF_8)).toList();
        step(nowUs, life -> life.append(0, epoch, values));
    }

    /** The state machine writes a snapshot of what is committed up to here. */
    void snapshot(long nowUs, long endOffset, int epoch) {
        List<byte[]> values = List.of("state".getBytes(StandardCharsets.UTF_8));
        step(nowUs, life -> life.snapshot(new OffsetAndEpoch(endOffset, epoch), values));
    }

    /** Snapshots and log that retention allows to delete are deleted. */
    void clean(long nowUs) {
        step(nowUs, Life::clean);
    }

    void resign(long nowUs, int epoch) {
        step(nowUs, life -> life.resign(epoch));
    }

    void shutDown(long nowUs, int timeoutMs) {
        step(nowUs, life -> life.client.shutdown(timeoutMs));
    }

    /** Raises kraft.version. */
    void upgrade(long nowUs, int level, int epoch) {
        step(nowUs, life -> life.upgrade((short) level, epoch));
    }

    private void step(long nowUs, HostedNode.Step step) {
        if (!host.isUp()) {
            throw new NotFollowed("node " + id + " is not up");
        }
        host.step(nowUs, step);
        host.writeState();
    }

    private static byte[] bytesOf(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        MessageSizeAccumulator size = new MessageSizeAccumulator();
        message.addSize(size, cache, version);
        ByteBuffer buffer = ByteBuffer.allocate(size.totalSize());
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }
}
