package org.apache.kafka.raft;

import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Random;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.SnapshotWriter;

/**
 * One life of a node, from a start to its end: a client, and everything that it takes for the
 * outside world.
 */
final class Life {
    private static final ListenerName LISTENER = ListenerName.normalised("CONTROLLER");
    private static final SupportedVersionRange KRAFT_VERSIONS =
        new SupportedVersionRange((short) 0, (short) 1);
    private static final int FETCH_WAIT_MAX_MS = 500; // KafkaRaftClient's own choice.
    private static final int IDLE_POLLS_MAX = 8;
    private static final MemoryPool BUFFERS = new SmallBuffers();
    private static final LogContext LOG_CONTEXT = new LogContext();
    private static final Field PARTITION_STATE = partitionState();

    final VirtualTime time = new VirtualTime();
    final KafkaRaftClient<byte[]> client;
    final VirtualLog log;
    final Peers peers;
    final Requests requests;
    private final Expirations expirations = new Expirations(time);
    private final Exchange.Queue queue = new Exchange.Queue();
    private final KRaftControlRecordStateMachine controlRecords;
    private final Disk disk;
    private final Events events;
    private VoterSet reportedVoters;
    private long reportedVotersOffset;
    private boolean hasReportedSpin;

    /** Starts node {@code id} of the settings on its disk. */
    Life(int id, NodeSettings settings, Disk disk, VersionCaps caps, Faults faults, Events events,
         long nowUs, long seed) {
        this.disk = disk;
        this.events = events;
        time.set(nowUs);
        log = new VirtualLog(disk, faults, events, settings, seed);
        peers = new Peers(LISTENER, settings.portBase(), caps, faults, events);
        client = new KafkaRaftClient<>(
            OptionalInt.of(id), settings.directoryId(), new BytesSerde(), peers, queue, log,
            BUFFERS, time, expirations, FETCH_WAIT_MAX_MS, settings.canBecomeVoter(),
            settings.clusterId(),
            settings.bootstrapServers().stream().map(settings::address).toList(),
            Endpoints.fromInetSocketAddresses(Map.of(LISTENER, settings.address(id))),
            KRAFT_VERSIONS, LOG_CONTEXT,
            seed < 0 ? new TimedDraws(seed, time) : new Random(seed), settings.quorumConfig());
        requests = new Requests(client, LISTENER, time, faults, events);
        Release.initialize(client, settings.staticVoterAddresses(),
            new QuorumStateFile(disk, faults, events), new Metrics(time));
        try {
            controlRecords = (KRaftControlRecordStateMachine) PARTITION_STATE.get(client);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
        client.register(new StateMachine(faults, events));
        reportVoters();
        faults.setLastWords(this::reportVoters);
    }

    private static Field partitionState() {
        try {
            Field field = KafkaRaftClient.class.getDeclaredField("partitionState");
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    // ---- what the state machine asks for -------------------------------------------------------

    void expire() {
        expirations.expire();
    }

    void append(long appendId, int epoch, List<byte[]> records) {
        try {
            long lastOffset = client.prepareAppend(epoch, records);
            client.schedulePreparedAppend();
            events.took(appendId, lastOffset - records.size() + 1, lastOffset);
        } catch (RuntimeException error) { // It does not lead, or the records are too large.
            events.refused(appendId, Diagnosis.of(error));
        }
    }

    /**
     * Writes a snapshot. A controller whose snapshot fails goes on without it, so that an error of
     * the disk is a note here too.
     */
    void snapshot(OffsetAndEpoch id, List<byte[]> values) {
        try {
            SnapshotWriter<byte[]> created = client.createSnapshot(id, 0).orElse(null);
            if (created == null) {
                events.note("no snapshot " + id + ": there is one, or the log begins later");
                return;
            }
            try (SnapshotWriter<byte[]> writer = created) {
                if (!values.isEmpty()) {
                    writer.append(values);
                }
                writer.freeze();
            }
        } catch (RuntimeException error) {
            events.note("no snapshot " + id + ": " + Diagnosis.of(error));
        }
    }

    /** The client's own cleaner logs what goes wrong, and tries again a minute later. */
    void clean() {
        try {
            log.maybeClean();
        } catch (RuntimeException error) {
            events.note("does not clean its log: " + Diagnosis.of(error));
        }
    }

    void resign(int epoch) {
        try {
            client.resign(epoch);
        } catch (IllegalArgumentException error) {
            events.note("it does not resign: " + Diagnosis.of(error));
        }
    }

    void upgrade(short level, int epoch) {
        String refusal = "";
        try {
            Release.upgrade(client, epoch, level);
        } catch (RuntimeException error) {
            refusal = Diagnosis.of(error);
        }
        events.upgraded(level, refusal);
    }

    // ---- its thread ----------------------------------------------------------------------------

    /** Does what the client's thread would do until it waits. Faults end it by an error. */
    void run(Faults faults) {
        int idlePolls = 0;
        do {
            client.poll();
            boolean isAwake = queue.takeIsAwake() | !queue.isEmpty();
            reportVoters();
            idlePolls = isAwake ? 0 : idlePolls + 1;
            if (!isAwake && queue.waitMs() > 0) {
                return;
            }
        } while (!faults.isPowerOff() && client.isRunning() && idlePolls < IDLE_POLLS_MAX);
        if (idlePolls == IDLE_POLLS_MAX && !hasReportedSpin) {
            hasReportedSpin = true;
            events.note("it polls again and again without waiting; here a millisecond passes");
        }
    }

    private void reportVoters() {
        VoterSet voters = controlRecords.lastVoterSet();
        long offset = controlRecords.lastVoterSetOffset().orElse(-1);
        if (voters != reportedVoters || offset != reportedVotersOffset) {
            reportedVoters = voters;
            reportedVotersOffset = offset;
            events.voters(offset, voters.toVotersRecord((short) 0));
        }
    }

    Events.State state(int status) {
        QuorumState quorum = client.quorum();
        long highWatermark = quorum.highWatermark().map(LogOffsetMetadata::offset).orElse(-1L);
        log.reportHighWatermark(highWatermark);
        return new Events.State(
            status, role(quorum), quorum.epoch(), quorum.leaderIdOrSentinel(),
            Release.voted(quorum, disk), highWatermark, disk.log.startOffset(),
            disk.log.endOffset(), disk.log.durableEndOffset(), deadlineUs(), quorum.isVoter(),
            controlRecords.lastKraftVersion().featureLevel());
    }

    private static int role(QuorumState quorum) {
        return quorum.isUnattached() ? 0 : Release.isProspective(quorum) ? 1
            : quorum.isCandidate() ? 2 : quorum.isLeader() ? 3 : quorum.isFollower() ? 4 : 5;
    }

    private long deadlineUs() {
        long nowMs = time.milliseconds();
        long waitMs = Math.max(1, queue.waitMs());
        long pollMs = waitMs > Expirations.NEVER_MS - nowMs ? Expirations.NEVER_MS
            : nowMs + waitMs;
        long nextMs = Math.min(pollMs, expirations.nextMs());
        return nextMs > Long.MAX_VALUE / 1000 ? Long.MAX_VALUE : nextMs * 1000;
    }
}
