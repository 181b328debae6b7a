package org.apache.kafka.raft;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.server.common.OffsetAndEpoch;

/**
 * The frame of events that answers a frame of commands. All events are written one behind the other
 * into one array, which grows and is used again for the next frame.
 */
final class Events {
    private static final VarHandle INT16 = bigEndian(short[].class);
    private static final VarHandle INT32 = bigEndian(int[].class);
    private static final VarHandle INT64 = bigEndian(long[].class);
    private static final int HEADER_SIZE = Byte.BYTES + 3 * Integer.BYTES;

    private byte[] bytes = new byte[1 << 16];
    private int end = Integer.BYTES; // Before it: the length of the frame.
    private int event; // Where the open event begins.
    private int run;
    private int node;

    private static VarHandle bigEndian(Class<?> view) {
        return MethodHandles.byteArrayViewVarHandle(view, ByteOrder.BIG_ENDIAN);
    }

    /** Names the run and the node of the events that follow. */
    void concern(int run, int node) {
        this.run = run;
        this.node = node;
    }

    /** How far the frame is written: what {@link #cutTo} takes. */
    int position() {
        return end;
    }

    /** Takes events back, for what they tell of did not happen. */
    void cutTo(int position) {
        end = position;
    }

    /** Ends the frame: its bytes are the first {@link #position} of the array. */
    byte[] finishFrame() {
        INT32.set(bytes, 0, end - Integer.BYTES);
        return bytes;
    }

    void beginFrame() {
        end = Integer.BYTES;
    }

    private Events begin(int code) {
        event = end;
        reserve(HEADER_SIZE);
        bytes[end] = (byte) code;
        INT32.set(bytes, end + 1, run);
        INT32.set(bytes, end + 5, node);
        end += HEADER_SIZE;
        return this;
    }

    private void finish() {
        INT32.set(bytes, event + HEADER_SIZE - Integer.BYTES, end - event - HEADER_SIZE);
    }

    private void reserve(int count) {
        int size = Math.addExact(end, count);
        if (size > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(size, (int) Math.min(2L * size, 1 << 30)));
        }
    }

    private Events bool(boolean value) {
        return int8(value ? 1 : 0);
    }

    private Events int8(int value) {
        reserve(Byte.BYTES);
        bytes[end++] = (byte) value;
        return this;
    }

    private Events int16(int value) {
        reserve(Short.BYTES);
        INT16.set(bytes, end, (short) value);
        end += Short.BYTES;
        return this;
    }

    private Events int32(int value) {
        reserve(Integer.BYTES);
        INT32.set(bytes, end, value);
        end += Integer.BYTES;
        return this;
    }

    private Events int64(long value) {
        reserve(Long.BYTES);
        INT64.set(bytes, end, value);
        end += Long.BYTES;
        return this;
    }

    private Events uuid(Uuid value) {
        return int64(value.getMostSignificantBits()).int64(value.getLeastSignificantBits());
    }

    private Events id(OffsetAndEpoch id) {
        return int64(id.offset()).int32(id.epoch());
    }

    private Events raw(byte[] value) {
        reserve(value.length);
        System.arraycopy(value, 0, bytes, end, value.length);
        end += value.length;
        return this;
    }

    private Events bytes(byte[] value) {
        return int32(value.length).raw(value);
    }

    private Events string(String value) {
        return bytes(value.getBytes(StandardCharsets.UTF_8));
    }

    private Events batches(List<StoredBatch> batches) {
        int size = 0;
        for (StoredBatch batch : batches) {
            size = Math.addExact(size, batch.bytes().length);
        }
        int32(size);
        for (StoredBatch batch : batches) {
            raw(batch.bytes());
        }
        return this;
    }

    /** Kafka's own writer writes the message where it belongs. */
    private Events message(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        MessageSizeAccumulator size = new MessageSizeAccumulator();
        message.addSize(size, cache, version);
        int32(size.totalSize());
        reserve(size.totalSize());
        ByteBuffer place = ByteBuffer.wrap(bytes, end, size.totalSize());
        message.write(new ByteBufferAccessor(place), cache, version);
        end += size.totalSize();
        return this;
    }

    void welcome(int version, String implementation, String release, int[] apiVersions,
                 List<String> capabilities) {
        begin(64).int16(version).string(implementation).string(release).int32(apiVersions.length);
        for (int number : apiVersions) {
            int32(number);
        }
        int32(capabilities.size());
        capabilities.forEach(this::string);
        finish();
    }

    void persisted(ElectionState state) {
        begin(65).election(state).finish();
    }

    private Events election(ElectionState state) {
        int32(state.epoch()).int32(state.leaderIdOrSentinel());
        return voted(state.hasVoted() ? state.votedKey() : null);
    }

    private Events voted(ReplicaKey voted) {
        return voted == null ? int32(-1).uuid(Uuid.ZERO_UUID)
            : int32(voted.id()).uuid(voted.directoryId().orElse(Uuid.ZERO_UUID));
    }

    void appended(boolean asLeader, List<StoredBatch> batches) {
        begin(66).bool(asLeader).batches(batches).finish();
    }

    void truncated(long endOffset) {
        begin(67).int64(endOffset).finish();
    }

    void flushed(long endOffset) {
        begin(68).int64(endOffset).finish();
    }

    void reset(OffsetAndEpoch snapshot) {
        begin(69).id(snapshot).finish();
    }

    void startMoved(OffsetAndEpoch snapshot) {
        begin(70).id(snapshot).finish();
    }

    void snapshotStored(OffsetAndEpoch snapshot, boolean isOwn, byte[] content) {
        begin(71).id(snapshot).bool(isOwn).bytes(content).finish();
    }

    void snapshotDeleted(OffsetAndEpoch snapshot) {
        begin(72).id(snapshot).finish();
    }

    void highWatermark(long offset) {
        begin(73).int64(offset).finish();
    }

    void committed(long endOffset) {
        begin(74).int64(endOffset).finish();
    }

    void loaded(OffsetAndEpoch snapshot) {
        begin(75).id(snapshot).finish();
    }

    void leader(int epoch, int leaderId) {
        begin(76).int32(epoch).int32(leaderId).finish();
    }

    void unsendable(long correlation, int port, short apiKey) {
        begin(77).int64(correlation).int32(port).int16(apiKey).int16(-1).int32(0).finish();
    }

    void sent(long correlation, int port, short apiKey, short version, ApiMessage body) {
        begin(77).int64(correlation).int32(port).int16(apiKey).int16(version)
            .message(body, version).finish();
    }

    void answered(long token, ApiMessage body, short version) {
        begin(78).int64(token).message(body, version).finish();
    }

    void dropped(long token, String reason) {
        begin(79).int64(token).string(reason).finish();
    }

    void took(long appendId, long baseOffset, long lastOffset) {
        begin(80).int64(appendId).int64(baseOffset).int64(lastOffset).finish();
    }

    void refused(long appendId, String reason) {
        begin(81).int64(appendId).string(reason).finish();
    }

    void voters(long offset, ApiMessage record) {
        begin(82).int64(offset).message(record, (short) 0).finish();
    }

    void upgraded(int level, String error) {
        begin(83).int16(level).string(error).finish();
    }

    /** An election of null: there is no quorum-state. */
    void recovered(long startOffset, long endOffset, long durableEndOffset, int crc32c,
                   ElectionState election) {
        begin(84).int64(startOffset).int64(endOffset).int64(durableEndOffset).int32(crc32c);
        if (election == null) {
            int32(0).int32(-1).voted(null).finish();
        } else {
            election(election).finish();
        }
    }

    void log(long startOffset, List<StoredBatch> batches) {
        begin(85).int64(startOffset).batches(batches).finish();
    }

    void note(String text) {
        begin(86).string(text).finish();
    }

    void fatal(String text) {
        begin(87).string(text).finish();
    }

    /** The state of a node, see {@link #writeState}. */
    record State(int status, int role, int epoch, int leaderId, ReplicaKey voted,
                 long highWatermark, long logStart, long logEnd, long durableEnd,
                 long deadlineUs, boolean isVoter, int kraftVersion) { }

    void writeState(State state) {
        begin(88).int8(state.status).int8(state.role).int32(state.epoch).int32(state.leaderId);
        voted(state.voted).int64(state.highWatermark).int64(state.logStart).int64(state.logEnd)
            .int64(state.durableEnd).int64(state.deadlineUs).bool(state.isVoter)
            .int16(state.kraftVersion).finish();
    }

    void wrong(String text) {
        begin(89).string(text).finish();
    }
}
