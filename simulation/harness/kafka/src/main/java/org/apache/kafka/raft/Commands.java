package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.internals.AppInfoParser;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.server.common.OffsetAndEpoch;

/** Reads the commands of a frame, and has them carried out by the nodes of their runs. */
final class Commands {
    private static final short PROTOCOL_VERSION = 1;
    private static final int HEADER_SIZE = Byte.BYTES + 3 * Integer.BYTES;

    private final Events events;
    private final Fields fields = new Fields();
    private final Map<Integer, Map<Integer, HostedNode>> runs = new HashMap<>();

    Commands(Events events) {
        this.events = events;
    }

    /** Carries out the commands of a frame in their order. One that is wrong is passed over. */
    void carryOut(ByteBuffer frame) {
        while (frame.hasRemaining()) {
            if (frame.remaining() < HEADER_SIZE) {
                events.concern(0, 0);
                events.wrong(frame.remaining() + " bytes where a command begins, at byte "
                    + frame.position());
                return;
            }
            int code = frame.get();
            int run = frame.getInt();
            int node = frame.getInt();
            int size = frame.getInt();
            events.concern(run, node);
            if (size < 0 || size > frame.remaining()) {
                events.wrong("a command of " + size + " bytes, where " + frame.remaining()
                    + " are left of the frame, at byte " + frame.position());
                return;
            }
            int end = frame.position() + size;
            fields.open(frame, end);
            try {
                carryOut(code, run, node);
            } catch (Fields.WrongCommand error) {
                events.wrong("command " + code + ": " + error.getMessage() + ", at byte "
                    + error.position);
            }
            frame.position(end);
        }
    }

    private void carryOut(int code, int run, int id) {
        switch (code) {
            case 1 -> {
                short version = fields.readInt16();
                fields.close();
                if (version < PROTOCOL_VERSION) {
                    throw fields.wrong("version " + version + " of the protocol is not spoken");
                }
                events.welcome(PROTOCOL_VERSION, "Apache Kafka", AppInfoParser.getVersion(),
                    Requests.maxVersions(), Release.capabilities());
            }
            case 2 -> {
                NodeSettings settings = readSettings();
                fields.close();
                HostedNode node = new HostedNode(id, settings, events);
                runs.computeIfAbsent(run, key -> new HashMap<>()).put(id, node);
                node.writeState();
            }
            case 22 -> {
                fields.close();
                runs.remove(run);
            }
            default -> {
                HostedNode node = runs.getOrDefault(run, Map.of()).get(id);
                if (node == null) {
                    throw fields.wrong("there is no node " + id + " in run " + run);
                }
                carryOut(code, node);
                node.writeState();
            }
        }
    }

    private void carryOut(int code, HostedNode node) {
        switch (code) {
            case 3 -> {
                OffsetAndEpoch checkpoint = readId();
                byte[] content = fields.readBytes();
                fields.close();
                needDown(node);
                node.install(checkpoint, content);
            }
            case 4 -> {
                int peer = fields.readInt32();
                short apiKey = fields.readInt16();
                short maxVersion = fields.readInt16();
                fields.close();
                node.caps.set(peer, apiKey, maxVersion);
            }
            case 5 -> {
                long nowUs = fields.readInt64();
                long seed = fields.readInt64();
                fields.close();
                if (!node.start(nowUs, seed)) {
                    throw fields.wrong("the node cannot start: it is up, or its power is off");
                }
            }
            case 16 -> {
                int effects = fields.readInt32();
                fields.close();
                node.faults.cutPowerAfter(effects);
            }
            case 17 -> {
                int fault = fields.readInt8();
                int operations = fields.readInt32();
                if (fault < Faults.NONE || fault > Faults.POWER_GOES || operations < 1) {
                    throw fields.wrong("fault " + fault + " in operation " + operations);
                }
                fields.close();
                node.faults.failDisk(fault, operations);
            }
            case 18 -> {
                fields.close();
                node.kill();
            }
            case 19 -> {
                int batches = fields.readInt32();
                int tornBytes = fields.readInt32();
                boolean keepsFiles = fields.readBool();
                if (batches < 0 || tornBytes < 0) {
                    throw fields.wrong(batches + " batches and " + tornBytes + " bytes");
                }
                fields.close();
                node.losePower(batches, tornBytes, keepsFiles);
            }
            case 20 -> {
                long baseOffset = fields.readInt64();
                int position = fields.readInt32();
                int mask = fields.readInt8();
                fields.close();
                needDown(node);
                if (!node.rot(baseOffset, position, mask)) {
                    throw fields.wrong("no byte " + position + " of a batch at " + baseOffset);
                }
            }
            case 21 -> {
                fields.close();
                node.readLog();
            }
            case 23 -> {
                long startOffset = fields.readInt64();
                byte[] data = fields.readBytes();
                ElectionState election = readElection();
                fields.close();
                needDown(node);
                node.restore(startOffset, data, election);
            }
            default -> step(code, node);
        }
    }

    /** The commands that a live node acts on. Their first field is the time. */
    private void step(int code, HostedNode node) {
        if (code < 6 || code > 15) {
            throw fields.wrong("there is no such command");
        }
        long nowUs = fields.readInt64();
        HostedNode.Step step = readStep(code);
        fields.close();
        node.step(nowUs, step);
    }

    private HostedNode.Step readStep(int code) {
        switch (code) {
            case 6 -> {
                return Life::expire;
            }
            case 7 -> {
                long token = fields.readInt64();
                short apiKey = fields.readInt16();
                short version = fields.readInt16();
                byte[] body = fields.readBytes();
                return life -> life.requests.handle(token, apiKey, version, body);
            }
            case 8 -> {
                long correlation = fields.readInt64();
                short apiKey = fields.readInt16();
                short version = fields.readInt16();
                byte[] body = fields.readBytes();
                return life -> life.peers.reply(correlation, apiKey, version, body);
            }
            case 9 -> {
                long correlation = fields.readInt64();
                boolean isUnsupported = fields.readBool();
                return life -> life.peers.fail(correlation, isUnsupported);
            }
            case 10 -> {
                long appendId = fields.readInt64();
                int epoch = fields.readInt32();
                var records = fields.readByteses();
                return life -> life.append(appendId, epoch, records);
            }
            case 11 -> {
                OffsetAndEpoch snapshot = readId();
                var values = fields.readByteses();
                return life -> life.snapshot(snapshot, values);
            }
            case 12 -> {
                return Life::clean;
            }
            case 13 -> {
                int epoch = fields.readInt32();
                return life -> life.resign(epoch);
            }
            case 14 -> {
                long timeoutUs = fields.readInt64();
                return life -> life.client.shutdown(NodeSettings.milliseconds(timeoutUs));
            }
            default -> {
                short level = fields.readInt16();
                int epoch = fields.readInt32();
                return life -> life.upgrade(level, epoch);
            }
        }
    }

    private NodeSettings readSettings() {
        return new NodeSettings(
            fields.readUuid(), fields.readString(), fields.readInt32(), fields.readBool(),
            fields.readBool(), fields.readInt32s(), fields.readInt32s(), fields.readInt64(),
            fields.readInt64(), fields.readInt64(), fields.readInt64(), fields.readInt64(),
            fields.readInt64(), fields.readInt32(), fields.readInt32(), fields.readInt64());
    }

    private OffsetAndEpoch readId() {
        long endOffset = fields.readInt64();
        int epoch = fields.readInt32();
        return new OffsetAndEpoch(endOffset, epoch);
    }

    private ElectionState readElection() {
        int epoch = fields.readInt32();
        int leaderId = fields.readInt32();
        int votedId = fields.readInt32();
        Uuid votedDirectory = fields.readUuid();
        return ElectionState.fromQuorumStateData(new QuorumStateData().setLeaderEpoch(epoch)
            .setLeaderId(leaderId).setVotedId(votedId).setVotedDirectoryId(votedDirectory));
    }

    private void needDown(HostedNode node) {
        if (node.isUp()) {
            throw fields.wrong("the node is up");
        }
    }
}
