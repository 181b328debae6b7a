package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.zip.CRC32C;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersionCollection;
import org.apache.kafka.common.message.ApiVersionsResponseData.SupportedFeatureKey;
import org.apache.kafka.common.message.ApiVersionsResponseData.SupportedFeatureKeyCollection;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.BeginQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VoteResponseData;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.record.internal.UnalignedMemoryRecords;
import org.apache.kafka.common.record.internal.UnalignedRecords;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;
import org.apache.kafka.snapshot.SnapshotReader;
import org.apache.kafka.snapshot.SnapshotWriter;

/**
 * An epoch has one leader. Here it is not so, with Apache Kafka 4.4.0.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory, further down in this file; other nodes are played by the
 * sequence.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by hand.
 */
public final class SecondLeaderOfAnEpoch {
    private static final Property PROPERTY = new SingleLeader();
    private static int stepCount;

    private static void sequence() {
        Node node0 = new Node(0, PROPERTY, new NodeSettings(
            Uuid.fromString("AQEBAQEBAQEBAQEBAQEBAQ"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(), // staticVoters
            List.of(0, 1, 2), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            1_048_576, // fetchMaxBytes
            1_048_576, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 0: is formatted with the voters 0, 1 and 2, and starts.");
        node0.install(
            0,
            0,
            Batches.control(
                0, 0,
                new SnapshotHeaderRecord(),
                new KRaftVersionRecord().setKRaftVersion((short) 1),
                new VotersRecord()
                    .setVoters(List.of(
                        new VotersRecord.Voter()
                            .setVoterDirectoryId(Uuid.fromString("AQEBAQEBAQEBAQEBAQEBAQ"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9000)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)),
                        new VotersRecord.Voter()
                            .setVoterId(1)
                            .setVoterDirectoryId(Uuid.fromString("AgICAgICAgICAgICAgICAg"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9001)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)),
                        new VotersRecord.Voter()
                            .setVoterId(2)
                            .setVoterDirectoryId(Uuid.fromString("AwMDAwMDAwMDAwMDAwMDAw"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9002)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)))),
                new SnapshotFooterRecord()));
        node0.start(0, 1);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 0: its clock strikes: it has heard of no leader.");
        node0.tick(5_000_000);
        // → sends VOTE to node 1; sends VOTE to node 2; is prospective of epoch 0

        step("Node 0: node 1 grants the pre-vote. It votes for itself in epoch 1.");
        node0.receiveReply(
            5_001_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setVoteGranted(true))))));
        // → stores epoch 1, voted for 0; sends VOTE to node 1; sends VOTE to node 2; is
        //   candidate of epoch 1

        step("Node 0: node 1, which has the votes of node 2 and itself, leads epoch 1.");
        node0.receive(
            5_002_000,
            1,
            new BeginQuorumEpochRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setVoterId(0)
                .setTopics(List.of(
                    new BeginQuorumEpochRequestData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new BeginQuorumEpochRequestData.PartitionData()
                                .setVoterDirectoryId(Uuid.fromString("AQEBAQEBAQEBAQEBAQEBAQ"))
                                .setLeaderId(1)
                                .setLeaderEpoch(1)))))
                .setLeaderEndpoints(new BeginQuorumEpochRequestData.LeaderEndpointCollection(List.of(
                    new BeginQuorumEpochRequestData.LeaderEndpoint()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9001)).iterator())));
        // → stores epoch 1, leader 1, voted for 0; answers BEGIN_QUORUM_EPOCH; sends FETCH to
        //   node 1; is follower of epoch 1

        step("Node 0: fetches the first records of epoch 1.");
        node0.receiveReply(
            5_010_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(-1L)
                                .setLogStartOffset(0L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(1)
                                    .setLeaderEpoch(1))
                                .setRecords(Batches.records(
            Batches.control(
                0, 1,
                new LeaderChangeMessage().setLeaderId(1),
                new KRaftVersionRecord().setKRaftVersion((short) 1),
                new VotersRecord()
                    .setVoters(List.of(
                        new VotersRecord.Voter()
                            .setVoterDirectoryId(Uuid.fromString("AQEBAQEBAQEBAQEBAQEBAQ"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9000)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)),
                        new VotersRecord.Voter()
                            .setVoterId(1)
                            .setVoterDirectoryId(Uuid.fromString("AgICAgICAgICAgICAgICAg"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9001)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)),
                        new VotersRecord.Voter()
                            .setVoterId(2)
                            .setVoterDirectoryId(Uuid.fromString("AwMDAwMDAwMDAwMDAwMDAw"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9002)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)))))))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(1)
                        .setHost("localhost")
                        .setPort(9001)).iterator())));
        // → log to 3, epoch 1; durable to 3; acts on the voters of offset 2; sends FETCH to
        //   node 1

        step("Node 0: fetches the removal of node 2, committed by nodes 0 and 1.");
        node0.receiveReply(
            5_020_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(3L)
                                .setLogStartOffset(0L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(1)
                                    .setLeaderEpoch(1))
                                .setRecords(Batches.records(
            Batches.control(
                3, 1,
                new VotersRecord()
                    .setVoters(List.of(
                        new VotersRecord.Voter()
                            .setVoterDirectoryId(Uuid.fromString("AQEBAQEBAQEBAQEBAQEBAQ"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9000)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)),
                        new VotersRecord.Voter()
                            .setVoterId(1)
                            .setVoterDirectoryId(Uuid.fromString("AgICAgICAgICAgICAgICAg"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9001)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)))))))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(1)
                        .setHost("localhost")
                        .setPort(9001)).iterator())));
        // → log to 4, epoch 1; durable to 4; high watermark 3; its state machine loads snapshot
        //   0-0; its state machine reads to 3; acts on the voters of offset 3; sends FETCH to
        //   node 1

        step("Node 0: fetches the removal of node 1, the leader, which nobody has committed yet.");
        node0.receiveReply(
            5_030_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(4L)
                                .setLogStartOffset(0L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(1)
                                    .setLeaderEpoch(1))
                                .setRecords(Batches.records(
            Batches.control(
                4, 1,
                new VotersRecord()
                    .setVoters(List.of(
                        new VotersRecord.Voter()
                            .setVoterDirectoryId(Uuid.fromString("AQEBAQEBAQEBAQEBAQEBAQ"))
                            .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                new VotersRecord.Endpoint()
                                    .setName("CONTROLLER")
                                    .setHost("localhost")
                                    .setPort(9000)).iterator()))
                            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                .setMaxSupportedVersion((short) 1)))))))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(1)
                        .setHost("localhost")
                        .setPort(9001)).iterator())));
        // → log to 5, epoch 1; durable to 5; high watermark 4; its state machine reads to 4;
        //   acts on the voters of offset 4; sends FETCH to node 1

        step("Node 0: loses its process.");
        node0.kill();

        step("Node 0: starts.");
        node0.start(6_000_000, 2);
        // → recovers a log of 5; stores epoch 1, voted for 0; stores epoch 1, leader 0; acts on
        //   the voters of offset 4; log to 6, epoch 1; high watermark 6; durable to 6; its
        //   state machine loads snapshot 0-0; its state machine reads to 6; its state machine
        //   is told to lead epoch 1; is leader of epoch 1
    }

    private static void step(String words) {
        System.out.println(++stepCount + ". " + words);
    }

    public static void main(String[] arguments) {
        System.exit(judge());
    }

    private static int judge() {
        try {
            sequence();
        } catch (Property.Broken breach) {
            System.out.println("The fault is there: " + breach.getMessage());
            return 1;
        } catch (NotFollowed difference) {
            System.out.println("The sequence cannot be followed: " + difference.getMessage());
            return 3;
        } catch (RuntimeException | Error error) { // Of the stand-ins, or of a message.
            error.printStackTrace(System.out);
            return 3;
        }
        System.out.println("The fault is not there.");
        return 0;
    }

    // ---- what Kafka's raft client runs on, and how the sequence reaches it

    /** An epoch has one leader. */
    static final class SingleLeader extends Property {
        private final Map<Integer, Integer> leaders = new HashMap<>(); // By epoch, as first stored.

        @Override void stepped(Node node, Life life) {
            QuorumState quorum = life.client.quorum();
            if (quorum.leaderId().isPresent()) {
                int leader = quorum.leaderId().getAsInt();
                int first = leaders.computeIfAbsent(quorum.epoch(), epoch -> leader);
                if (first != leader) {
                    throw new Broken("node " + leader + " leads epoch " + quorum.epoch()
                        + ", and so does node " + first);
                }
            }
        }
    }

    /**
     * A node that runs Kafka's raft client. Everything that reaches it is a call here; its peers that
     * are not in this file are played by such calls. Times are microseconds of its clock.
     */
    static final class Node {
        /** A request of the node that has no reply yet. */
        record Request(long correlation, int peer, short apiKey, short version) { }

        final int id;
        final NodeSettings settings;
        final HostedNode host;
        final List<Request> waiting = new ArrayList<>(); // The oldest first.
        private final Events events;
        private long nextToken;

        Node(int id, Property property, NodeSettings settings) {
            this.id = id;
            this.settings = settings;
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
        }

        /** An older release is asked in its own highest version. */
        void receive(long nowUs, int version, ApiMessage request) {
            short known = (short) Math.min(version, request.highestSupportedVersion());
            byte[] body = bytesOf(request, known);
            long token = nextToken++;
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
            step(nowUs, life -> life.log.maybeClean());
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

    /** What a node does in a step: told when the step is over, and held against the property. */
    static final class Events {
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

    /** What has to hold. A property looks at what it needs, in the order in which things happened. */
    static abstract class Property {
        /** It does not. */
        static final class Broken extends RuntimeException {
            private static final long serialVersionUID = 1;

            Broken(String what) {
                super(what, null, false, false);
            }
        }

        void sent(Node node, ApiMessage request) { }

        void highWatermark(Node node, long offset) { }

        void fatal(Node node, String text) { }

        /** At the end of each step of a node that is up. */
        void stepped(Node node, Life life) { }
    }

    /** This release did something else before the property could break. */
    static final class NotFollowed extends RuntimeException {
        private static final long serialVersionUID = 1;

        NotFollowed(String why) {
            super(why, null, false, false);
        }
    }

    /** Record batches, as a leader's log and a checkpoint have them. */
    static final class Batches {
        private static final int SIZE_MAX = 1 << 16;

        private Batches() { }

        static byte[] data(long baseOffset, int epoch, String... values) {
            return batch(baseOffset, epoch, false, builder -> {
                for (String value : values) {
                    builder.append(new SimpleRecord(0, value.getBytes(StandardCharsets.UTF_8)));
                }
            });
        }

        static byte[] control(long baseOffset, int epoch, ApiMessage... values) {
            return batch(baseOffset, epoch, true, builder -> {
                for (ApiMessage value : values) {
                    appendControl(builder, value);
                }
            });
        }

        private static void appendControl(MemoryRecordsBuilder builder, ApiMessage value) {
            if (value instanceof LeaderChangeMessage message) {
                builder.appendLeaderChangeMessage(0, message);
            } else if (value instanceof KRaftVersionRecord message) {
                builder.appendKRaftVersionMessage(0, message);
            } else if (value instanceof VotersRecord message) {
                builder.appendVotersMessage(0, message);
            } else if (value instanceof SnapshotHeaderRecord message) {
                builder.appendSnapshotHeaderMessage(0, message);
            } else {
                builder.appendSnapshotFooterMessage(0, (SnapshotFooterRecord) value);
            }
        }

        private static byte[] batch(long baseOffset, int epoch, boolean isControl,
                                    Consumer<MemoryRecordsBuilder> appends) {
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                ByteBuffer.allocate(SIZE_MAX), RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
                TimestampType.CREATE_TIME, baseOffset, RecordBatch.NO_TIMESTAMP,
                RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE,
                false, isControl, epoch, SIZE_MAX);
            appends.accept(builder);
            ByteBuffer written = builder.build().buffer();
            byte[] bytes = new byte[written.remaining()];
            written.get(bytes);
            return bytes;
        }

        static byte[] hex(String digits) {
            return HexFormat.of().parseHex(digits);
        }

        static byte[] joined(byte[]... parts) {
            int size = 0;
            for (byte[] part : parts) {
                size += part.length;
            }
            ByteBuffer all = ByteBuffer.allocate(size);
            for (byte[] part : parts) {
                all.put(part);
            }
            return all.array();
        }

        static MemoryRecords records(byte[]... batches) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(joined(batches)));
        }

        /** The last voter set in batches; null: there is none. */
        static VoterSet lastVoters(byte[] batches) {
            VoterSet found = null;
            for (MutableRecordBatch batch : records(batches).batches()) {
                if (!batch.isControlBatch()) {
                    continue;
                }
                for (Record record : batch) {
                    if (ControlRecordType.parse(record.key()) == ControlRecordType.KRAFT_VOTERS) {
                        found = VoterSet.fromVotersRecord(
                            ControlRecordUtils.deserializeVotersRecord(record));
                    }
                }
            }
            return found;
        }
    }

    /** A node of a run: its settings and its disk, and its life while it is up. */
    static final class HostedNode {
        private static final int DOWN = 0;
        private static final int UP = 1;
        private static final int LEFT = 2;
        private static final int POWER_WENT = 3;
        private static final int FATAL = 4;
        private static final int DISK_FAILED = 5;
        private static final int DISK_FULL = 6;
        private static final long NEVER_US = Long.MAX_VALUE;

        /** Something that the simulator lets a live node do. */
        interface Step {
            void run(Life life);
        }

        final VersionCaps caps = new VersionCaps();
        final Faults faults;
        private final int id;
        private final NodeSettings settings;
        private final Events events;
        private final Disk disk = new Disk();
        private Life life;
        private int status = DOWN;

        HostedNode(int id, NodeSettings settings, Events events) {
            this.id = id;
            this.settings = settings;
            this.events = events;
            this.faults = new Faults(events);
        }

        boolean isUp() {
            return status == UP;
        }

        void install(OffsetAndEpoch id, byte[] content) {
            disk.checkpoints.put(id, new Disk.Checkpoint(content, true));
        }

        void restore(long startOffset, byte[] data, ElectionState election) {
            disk.restore(startOffset, data, election);
        }

        boolean rot(long baseOffset, int position, int mask) {
            return disk.log.rot(baseOffset, position, mask);
        }

        void readLog() {
            events.log(disk.log.startOffset(), disk.log.batches());
        }

        /** Starts it; false where its power is off or it is up. */
        boolean start(long nowUs, long seed) {
            if (status == UP || status == POWER_WENT) {
                return false;
            }
            status = UP;
            guard(() -> {
                life = new Life(id, settings, disk, caps, faults, events, nowUs, seed);
                life.run(faults);
            });
            return true;
        }

        /** Lets a live node do something; one that is not up does nothing. */
        void step(long nowUs, Step step) {
            if (status == UP) {
                guard(() -> {
                    life.time.set(nowUs);
                    step.run(life);
                    life.run(faults);
                });
            }
        }

        /** Ends its process. Without power there is none, and it stays so. */
        void kill() {
            if (status != POWER_WENT) {
                stop(DOWN);
                faults.cutPowerAfter(-1);
            }
        }

        void losePower(int batches, int tornBytes, boolean keepsFiles) {
            stop(DOWN);
            faults.restorePower();
            disk.losePower(batches, tornBytes, keepsFiles);
        }

        private void stop(int status) {
            this.status = status;
            life = null;
        }

        private void guard(Runnable action) {
            try {
                action.run();
                if (!life.client.isRunning()) {
                    stop(LEFT);
                }
            } catch (OutOfMemoryError error) {
                throw error; // Of the process, not of the node.
            } catch (Throwable error) {
                stop(statusAfter(error));
            }
            if (faults.isPowerOff()) {
                faults.forgetLaterEvents();
                stop(POWER_WENT);
            }
        }

        private int statusAfter(Throwable error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof Faults.DiskError diskError) {
                    events.note("its disk stopped it: " + Diagnosis.of(error));
                    return diskError.isFull ? DISK_FULL : DISK_FAILED;
                }
            }
            events.fatal(Diagnosis.of(error));
            return FATAL;
        }

        /** Ends the answer to a command. */
        void writeState() {
            if (status == UP) {
                events.writeState(life.state(status));
                return;
            }
            ElectionState election = disk.election == null ? null : disk.election.state();
            events.writeState(new Events.State(
                status, 0, election == null ? 0 : election.epoch(),
                election == null ? -1 : election.leaderIdOrSentinel(),
                election == null || !election.hasVoted() ? null : election.votedKey(), -1,
                disk.log.startOffset(), disk.log.endOffset(), disk.log.durableEndOffset(),
                NEVER_US, false, 0));
        }
    }

    /**
     * One life of a node, from a start to its end: a client, and everything that it takes for the
     * outside world.
     */
    static final class Life {
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

    /** Reads requests and responses that the network brings. */
    static final class Bodies {
        /** The bytes are not what Kafka's own class can read. */
        static final class Unreadable extends Exception {
            private static final long serialVersionUID = 1;

            Unreadable(String message) {
                super(message, null, false, false);
            }
        }

        private Bodies() { }

        static ApiMessage readRequest(short apiKey, short version, byte[] body) throws Unreadable {
            try {
                return read(ApiMessageType.fromApiKey(apiKey).newRequest(), version, body);
            } catch (RuntimeException error) {
                throw new Unreadable(Diagnosis.of(error));
            }
        }

        static ApiMessage readResponse(short apiKey, short version, byte[] body) throws Unreadable {
            try {
                return read(ApiMessageType.fromApiKey(apiKey).newResponse(), version, body);
            } catch (RuntimeException error) {
                throw new Unreadable(Diagnosis.of(error));
            }
        }

        private static ApiMessage read(ApiMessage message, short version, byte[] body)
                throws Unreadable {
            if (version < message.lowestSupportedVersion()
                    || version > message.highestSupportedVersion()) {
                throw new Unreadable("version " + version + " of API " + message.apiKey()
                    + ", which has " + message.lowestSupportedVersion() + " to "
                    + message.highestSupportedVersion());
            }
            message.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), version);
            return message;
        }
    }

    /**
     * The state machine's records are bytes, whatever they mean. None may be empty: no serde of Kafka's
     * writes such a record, and its reader would take the client down.
     */
    static final class BytesSerde implements RecordSerde<byte[]> {
        @Override public int recordSize(byte[] data, ObjectSerializationCache cache) {
            if (data.length == 0) {
                throw new IllegalArgumentException("a record is empty");
            }
            return data.length;
        }

        @Override public void write(byte[] data, ObjectSerializationCache cache, Writable to) {
            to.writeByteArray(data);
        }

        @Override public byte[] read(Readable from, int size) {
            return from.readArray(size);
        }
    }

    /** Writes, reads and deletes the checkpoints on a {@link Disk}. */
    static final class Checkpoints {
        private final Disk disk;
        private final Faults faults;
        private final Events events;

        Checkpoints(Disk disk, Faults faults, Events events) {
            this.disk = disk;
            this.faults = faults;
            this.events = events;
        }

        boolean has(OffsetAndEpoch id) {
            return disk.checkpoints.containsKey(id);
        }

        Optional<RawSnapshotReader> read(OffsetAndEpoch id) {
            Disk.Checkpoint checkpoint = disk.checkpoints.get(id);
            return checkpoint == null ? Optional.empty()
                : Optional.of(new Reader(id, checkpoint.content()));
        }

        /** Begins one; nothing where there is one of this id. */
        Optional<RawSnapshotWriter> create(OffsetAndEpoch id, boolean isOwn) {
            return has(id) ? Optional.empty() : Optional.of(new Writer(id, isOwn));
        }

        /** Deletes all that are earlier than this one; false: there are none. */
        boolean deleteBefore(OffsetAndEpoch id) {
            List<OffsetAndEpoch> ids = List.copyOf(disk.checkpoints.headMap(id).keySet());
            ids.forEach(this::delete);
            return !ids.isEmpty();
        }

        /** Deletes all that end before this offset. */
        void deleteBefore(long offset) {
            deleteBefore(new OffsetAndEpoch(offset, 0));
        }

        private void delete(OffsetAndEpoch id) {
            faults.beforeEffect();
            try {
                faults.beforeOperation();
            } catch (Faults.DiskError error) {
                throw new UncheckedIOException("cannot delete the checkpoint " + id, error);
            }
            disk.checkpoints.remove(id);
            events.snapshotDeleted(id);
        }

        private record Reader(OffsetAndEpoch snapshotId, byte[] content)
                implements RawSnapshotReader {
            @Override public long sizeInBytes() {
                return content.length;
            }

            @Override public UnalignedRecords slice(long position, int size) {
                int from = Math.toIntExact(position);
                int count = Math.min(size, content.length - from);
                return new UnalignedMemoryRecords(ByteBuffer.wrap(content, from, count).slice());
            }

            @Override public Records records() {
                return MemoryRecords.readableRecords(ByteBuffer.wrap(content));
            }
        }

        private final class Writer implements RawSnapshotWriter {
            private final OffsetAndEpoch id;
            private final boolean isOwn;
            private final ByteArrayOutputStream content = new ByteArrayOutputStream();
            private boolean isFrozen;

            Writer(OffsetAndEpoch id, boolean isOwn) {
                this.id = id;
                this.isOwn = isOwn;
            }

            @Override public OffsetAndEpoch snapshotId() {
                return id;
            }

            @Override public long sizeInBytes() {
                return content.size();
            }

            @Override public void append(MemoryRecords records) {
                append(records.buffer());
            }

            @Override public void append(UnalignedMemoryRecords records) {
                append(records.buffer());
            }

            private void append(ByteBuffer records) {
                if (isFrozen) {
                    throw new IllegalStateException("the checkpoint " + id + " is complete");
                }
                // Not an operation of the disk: the file has no name yet, and the freeze will write it.
                byte[] bytes = new byte[records.remaining()];
                records.get(bytes);
                content.writeBytes(bytes);
            }

            @Override public boolean isFrozen() {
                return isFrozen;
            }

            @Override public void freeze() {
                if (isFrozen) {
                    throw new IllegalStateException("the checkpoint " + id + " is complete");
                }
                faults.beforeEffect();
                byte[] bytes = content.toByteArray();
                try {
                    RenamedFile.write(faults, isNamed ->
                        disk.checkpoints.put(id, new Disk.Checkpoint(bytes, isNamed)));
                } catch (Faults.DiskError error) {
                    disk.checkpoints.remove(id); // Also where only its directory was not synced.
                    throw new UncheckedIOException("cannot write the checkpoint " + id, error);
                }
                isFrozen = true;
                events.snapshotStored(id, isOwn, bytes);
            }

            @Override public void close() { }
        }
    }

    /** Says in one line what an error is and where it happened, in the same words in each process. */
    static final class Diagnosis {
        private static final int FRAMES_MAX = 4;
        // Of objects without a text of their own, Java prints where they are in memory.
        private static final Pattern PLACE_IN_MEMORY = Pattern.compile("(/0x[0-9a-f]+)?@[0-9a-f]+");

        private Diagnosis() { }

        static String of(Throwable error) {
            StringBuilder text = new StringBuilder(textOf(error));
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                text.append(", because of ").append(textOf(cause));
            }
            int shown = 0;
            for (StackTraceElement frame : error.getStackTrace()) {
                String name = frame.getClassName();
                if (name.startsWith("org.apache.kafka.") && shown++ < FRAMES_MAX) {
                    text.append(" at ").append(name.substring(name.lastIndexOf('.') + 1)).append('.')
                        .append(frame.getMethodName()).append(':').append(frame.getLineNumber());
                }
            }
            return text.toString();
        }

        private static String textOf(Throwable error) {
            return PLACE_IN_MEMORY.matcher(error.toString()).replaceAll("");
        }
    }

    /**
     * The disk of one node: the log, its checkpoints and quorum-state. It outlives the clients that use
     * it, and knows what of it a power loss leaves.
     *
     * <p>A batch is durable once the log was flushed after it. Neither the end of a process
     * nor opening a log flushes. A file that was renamed to its name is durable once
     * its directory was synced; Kafka does so for quorum-state and for checkpoints before it goes on,
     * so that only a power loss between those two operations can take such a file. What was cut off or
     * deleted is gone at once. (A real file system may bring it back after a power loss. Kafka then
     * deletes checkpoints before the start of the log, and old batches behind its end are cut again
     * like any that the leader does not have.)
     */
    static final class Disk {
        /** A checkpoint; not named: the power may take it, for its directory was not synced. */
        record Checkpoint(byte[] content, boolean isNamed) { }

        /** What quorum-state has. */
        record Election(QuorumStateData data) {
            ElectionState state() {
                return ElectionState.fromQuorumStateData(data);
            }
        }

        final StoredLog log = new StoredLog();
        final LeaderEpochs leaderEpochs = new LeaderEpochs(); // In a file that is synced at once.
        final TreeMap<OffsetAndEpoch, Checkpoint> checkpoints = new TreeMap<>();
        Election election;
        Election durableElection;

        /** Puts a log and a quorum-state there, durably. */
        void restore(long startOffset, byte[] data, ElectionState state) {
            leaderEpochs.clear();
            log.restartAt(startOffset);
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                log.append(StoredBatch.copyOf(batch));
            }
            log.flush();
            election = new Election(state.toQuorumStateData((short) 1));
            durableElection = election;
        }

        /** The power is gone: of what was not synced, only this stays. */
        void losePower(int batchCount, int tornByteCount, boolean keepsFiles) {
            log.losePower(batchCount, tornByteCount);
            if (!keepsFiles) {
                election = durableElection;
                checkpoints.values().removeIf(checkpoint -> !checkpoint.isNamed());
            }
            durableElection = election;
            checkpoints.replaceAll((id, checkpoint) -> new Checkpoint(checkpoint.content(), true));
        }
    }

    /** How a client exchanges messages with what is around it, where releases differ in it. */
    static final class Exchange {
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

    /** Lets requests that wait on a client fail at their time, in the order of those times. */
    static final class Expirations implements ExpirationService {
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

    /**
     * What the simulator lets go wrong with one node: its power, and its disk.
     *
     * <p>Everything that happens on the disk or that others see asks here before it happens. When the
     * power has gone, nothing happens any more, also where Kafka's futures have swallowed the error
     * that said so.
     */
    static final class Faults {
        static final int NONE = 0;
        static final int ONE_FAILS = 1;
        static final int FULL = 2;
        static final int POWER_GOES = 3;

        /** Ends what the client is doing. An error, for Kafka catches exceptions in more places. */
        static final class PowerLost extends Error {
            private static final long serialVersionUID = 1;

            PowerLost() {
                super("the power is gone", null, false, false);
            }
        }

        /** What the file system says of an operation that it did not do. */
        static final class DiskError extends IOException {
            private static final long serialVersionUID = 1;
            final boolean isFull;

            DiskError(boolean isFull) {
                super(isFull ? "No space left on device" : "Input/output error");
                this.isFull = isFull;
            }
        }

        private final Events events;
        private int effectsLeft = -1; // Negative: the power stays.
        private boolean isPowerOff;
        private int eventsEnd; // Where the frame ended when the power went.
        private int diskFault = NONE;
        private int operationsLeft;

        Faults(Events events) {
            this.events = events;
        }

        void cutPowerAfter(int effects) {
            effectsLeft = effects;
        }

        void failDisk(int fault, int operations) {
            diskFault = fault;
            operationsLeft = operations;
        }

        void restorePower() {
            isPowerOff = false;
            effectsLeft = -1;
        }

        boolean isPowerOff() {
            return isPowerOff;
        }

        /** Takes back the events that were written after the power had gone. */
        void forgetLaterEvents() {
            events.cutTo(eventsEnd);
        }

        /** Must be called before each effect. */
        void beforeEffect() {
            if (!isPowerOff && effectsLeft >= 0 && effectsLeft-- == 0) {
                loseThePower();
            }
            requirePower();
        }

        /** Must be called before bytes are written to a file. */
        void beforeWrite() throws DiskError {
            beforeOperation();
            if (diskFault == FULL) {
                throw new DiskError(true);
            }
        }

        /** Must be called before a sync, a rename, a deletion or a truncation. */
        void beforeOperation() throws DiskError {
            requirePower();
            if (diskFault != ONE_FAILS && diskFault != POWER_GOES || --operationsLeft > 0) {
                return;
            }
            boolean goes = diskFault == POWER_GOES;
            diskFault = NONE;
            if (goes) {
                loseThePower();
                requirePower();
            }
            throw new DiskError(false);
        }

        private void loseThePower() {
            isPowerOff = true;
            eventsEnd = events.position();
        }

        private void requirePower() {
            if (isPowerOff) {
                throw new PowerLost();
            }
        }
    }

    /** Where each epoch begins in the log, as Kafka keeps it beside a log. */
    static final class LeaderEpochs {
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

    /** Checks what is to be appended to the log as Kafka does it, and writes it. */
    static final class LogWriter {
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

    /** How a node is configured: the fields of {@code define}, in their order. */
    record NodeSettings(
            Uuid directoryId, String clusterId, int portBase, boolean canBecomeVoter, boolean autoJoin,
            List<Integer> staticVoters, List<Integer> bootstrapServers, long electionTimeoutUs,
            long fetchTimeoutUs, long electionBackoffMaxUs, long requestTimeoutUs, long retryBackoffUs,
            long appendLingerUs, int fetchMaxBytes, int fetchSnapshotMaxBytes, long retentionBytes) {
        /** What KafkaRaftClient is given; a release passes over the keys that it does not have. */
        QuorumConfig quorumConfig() {
            Map<String, Object> values = new HashMap<>();
            values.put("controller.quorum.election.timeout.ms", milliseconds(electionTimeoutUs));
            values.put("controller.quorum.fetch.timeout.ms", milliseconds(fetchTimeoutUs));
            values.put("controller.quorum.election.backoff.max.ms", milliseconds(electionBackoffMaxUs));
            values.put("controller.quorum.request.timeout.ms", milliseconds(requestTimeoutUs));
            values.put("controller.quorum.retry.backoff.ms", milliseconds(retryBackoffUs));
            values.put("controller.quorum.append.linger.ms", milliseconds(appendLingerUs));
            values.put("controller.quorum.fetch.max.bytes", fetchMaxBytes);
            values.put("controller.quorum.fetch.snapshot.max.bytes", fetchSnapshotMaxBytes);
            values.put("controller.quorum.auto.join.enable", autoJoin);
            return new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, values, false));
        }

        /** Kafka's times are whole milliseconds; none becomes shorter. */
        static int milliseconds(long us) {
            return (int) Math.min(Integer.MAX_VALUE, -Math.floorDiv(-us, 1000L));
        }

        InetSocketAddress address(int nodeId) {
            return InetSocketAddress.createUnresolved("localhost", portBase + nodeId);
        }

        Map<Integer, InetSocketAddress> staticVoterAddresses() {
            Map<Integer, InetSocketAddress> addresses = new TreeMap<>();
            staticVoters.forEach(id -> addresses.put(id, address(id)));
            return addresses;
        }
    }

    /** The requests of one client to its peers, and what becomes of them. */
    static final class Peers extends Exchange.Channel {
        private record Pending(RaftRequest.Outbound request,
                               CompletableFuture<RaftResponse.Inbound> promise) {
            void fail(Errors error) {
                ApiKeys api = ApiKeys.forId(request.data().apiKey());
                promise.complete(new RaftResponse.Inbound(request.correlationId(),
                    RaftUtil.errorResponse(api, error), request.destination()));
            }
        }

        private final ListenerName listener;
        private final int portBase;
        private final VersionCaps caps;
        private final Faults faults;
        private final Events events;
        private final Map<Long, Pending> pending = new HashMap<>();
        private int nextCorrelationId;

        Peers(ListenerName listener, int portBase, VersionCaps caps, Faults faults, Events events) {
            this.listener = listener;
            this.portBase = portBase;
            this.caps = caps;
            this.faults = faults;
            this.events = events;
        }

        @Override public int newCorrelationId() {
            return nextCorrelationId++;
        }

        @Override public ListenerName listenerName() {
            return listener;
        }

        @Override void send(RaftRequest.Outbound request,
                            CompletableFuture<RaftResponse.Inbound> promise) {
            Pending sending = new Pending(request, promise);
            AbstractRequest.Builder<?> builder = KafkaNetworkChannel.buildRequest(request.data());
            int port = request.destination().port();
            short apiKey = builder.apiKey().id;
            short version = (short) Math.min(builder.latestAllowedVersion(),
                caps.maxVersion(port - portBase, apiKey));
            pending.put((long) request.correlationId(), sending);
            faults.beforeEffect();
            if (version < builder.oldestAllowedVersion()) {
                events.unsendable(request.correlationId(), port, apiKey);
                return;
            }
            int before = events.position();
            try {
                events.sent(request.correlationId(), port, apiKey, version,
                    builder.build(version).data());
            } catch (UnsupportedVersionException error) {
                // It says something that this version cannot say.
                events.cutTo(before);
                events.unsendable(request.correlationId(), port, apiKey);
            }
        }

        void reply(long correlation, short apiKey, short version, byte[] body) {
            Pending answered = pending.remove(correlation);
            if (answered == null) {
                events.note("a reply to request " + correlation + ", which nobody waits for");
                return;
            }
            try {
                answered.promise.complete(new RaftResponse.Inbound((int) correlation,
                    Bodies.readResponse(apiKey, version, body), answered.request.destination()));
            } catch (Bodies.Unreadable error) {
                // The network client closes such a connection.
                events.note("a reply to request " + correlation + " is unreadable: "
                    + error.getMessage());
                answered.fail(Errors.BROKER_NOT_AVAILABLE);
            }
        }

        void fail(long correlation, boolean isUnsupported) {
            Pending failed = pending.remove(correlation);
            if (failed != null) {
                failed.fail(isUnsupported ? Errors.UNSUPPORTED_VERSION : Errors.BROKER_NOT_AVAILABLE);
            }
        }
    }

    /** The file quorum-state on a {@link Disk}. */
    static final class QuorumStateFile implements QuorumStateStore {
        private final Disk disk;
        private final Faults faults;
        private final Events events;

        QuorumStateFile(Disk disk, Faults faults, Events events) {
            this.disk = disk;
            this.faults = faults;
            this.events = events;
        }

        @Override public Optional<ElectionState> readElectionState() {
            return Optional.ofNullable(disk.election).map(Disk.Election::state);
        }

        @Override public void writeElectionState(ElectionState state, KRaftVersion kraftVersion) {
            faults.beforeEffect();
            Disk.Election election = new Disk.Election(
                state.toQuorumStateData(kraftVersion.quorumStateVersion()));
            try {
                RenamedFile.write(faults, isNamed -> {
                    disk.election = election;
                    if (isNamed) {
                        disk.durableElection = election;
                    }
                });
            } catch (Faults.DiskError error) {
                throw new UncheckedIOException("cannot write quorum-state", error);
            }
            events.persisted(election.state());
        }

        @Override public Path path() {
            return Path.of("quorum-state");
        }

        @Override public void clear() {
            disk.election = null;
            disk.durableElection = null;
        }
    }

    /**
     * What Kafka does with a log when it opens it.
     *
     * <p>The metadata log is always opened as after an unclean shutdown and with a recovery point of 0.
     * So all its batches are read, durable or not, and the log is cut at the first whose CRC is wrong
     * or that is incomplete; whatever follows goes as well. The CRC leaves out the base offset, the
     * length, the leader epoch and the magic number: a batch that rotted there may be taken as it is.
     *
     * <p>Of base offsets that do not rise, Kafka refuses some with an error and takes others, as its
     * indexes happen to be. Here all are refused.
     */
    static final class Recovery {
        // Where the fields of a batch are.
        private static final int LENGTH_POSITION = 8;
        private static final int LENGTH_END = 12;
        private static final int EPOCH_POSITION = 12;
        private static final int MAGIC_POSITION = 16;
        private static final int HEADER_SIZE_UP_TO_MAGIC = 17;
        private static final int CRC_POSITION = 17;
        private static final int CRC_END = 21;
        private static final int LAST_OFFSET_DELTA_POSITION = 23;

        private Recovery() { }

        /** Cuts the log where Kafka would. Leaves a log alone whose bytes are as they were written. */
        static void run(StoredLog log, Faults faults) throws Faults.DiskError {
            if (!log.isDamaged()) {
                return;
            }
            List<StoredBatch> stored = log.batches();
            List<StoredBatch> valid = validBatches(contentOf(log));
            if (valid.size() < stored.size() || log.tornBytes().length > 0) {
                faults.beforeOperation();
            }
            int sameCount = 0;
            while (sameCount < valid.size() && sameCount < stored.size()
                    && valid.get(sameCount).bytes().length == stored.get(sameCount).bytes().length) {
                sameCount++;
            }
            log.replace(valid, sameCount);
        }

        private static ByteBuffer contentOf(StoredLog log) {
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            log.batches().forEach(batch -> content.writeBytes(batch.bytes()));
            content.writeBytes(log.tornBytes());
            return ByteBuffer.wrap(content.toByteArray());
        }

        private static List<StoredBatch> validBatches(ByteBuffer content) {
            List<StoredBatch> valid = new ArrayList<>();
            long endOffset = 0;
            while (content.remaining() > HEADER_SIZE_UP_TO_MAGIC) {
                int start = content.position();
                long size = LENGTH_END + (long) content.getInt(start + LENGTH_POSITION);
                if (size < DefaultRecordBatch.RECORD_BATCH_OVERHEAD || size > content.remaining()
                        // A byte that is no magic number, or a later one, is not looked at.
                        || content.get(start + MAGIC_POSITION) < RecordBatch.MAGIC_VALUE_V2) {
                    break;
                }
                byte[] bytes = new byte[(int) size];
                content.get(bytes);
                ByteBuffer batch = ByteBuffer.wrap(bytes);
                CRC32C crc = new CRC32C();
                crc.update(bytes, CRC_END, bytes.length - CRC_END);
                if ((int) crc.getValue() != batch.getInt(CRC_POSITION)) {
                    break;
                }
                long baseOffset = batch.getLong(0);
                if (baseOffset < endOffset) {
                    throw new IllegalArgumentException("cannot open the log: a batch at offset "
                        + baseOffset + " follows one that ends at " + endOffset);
                }
                endOffset = baseOffset + batch.getInt(LAST_OFFSET_DELTA_POSITION) + 1;
                valid.add(new StoredBatch(
                    baseOffset, endOffset - 1, batch.getInt(EPOCH_POSITION), bytes));
            }
            return valid;
        }
    }

    /** What the releases of Kafka have in different ways, or not at all. */
    static final class Release {
        private static final List<String> CAPABILITIES = List.of(
            "pre_vote", "dynamic_voters", "snapshots", "upgrade", "auto_join", "disk_faults",
            "lock_step");

        private Release() { }

        static List<String> capabilities() {
            return CAPABILITIES.stream()
                .filter(name -> !name.equals("auto_join")
                    || QuorumConfig.CONFIG_DEF.names().contains("controller.quorum.auto.join.enable"))
                .toList();
        }

        static void initialize(KafkaRaftClient<?> client, Map<Integer, InetSocketAddress> voters,
                               QuorumStateStore store, Metrics metrics) {
            client.initialize(voters, store, metrics, ignoresMigration -> { });
        }

        static boolean isProspective(QuorumState quorum) {
            return quorum.isProspective();
        }

        /** For whom the replica has voted; null: nobody. */
        static ReplicaKey voted(QuorumState quorum, Disk disk) {
            return quorum.votedKey().orElse(null);
        }

        static void upgrade(KafkaRaftClient<?> client, int epoch, short level) {
            client.upgradeKRaftVersion(epoch, KRaftVersion.fromFeatureLevel(level), false);
        }
    }

    /**
     * A file that Kafka writes under another name, syncs, renames, and whose directory it syncs then.
     * So it does with checkpoints and with quorum-state.
     */
    static final class RenamedFile {
        private RenamedFile() { }

        /**
         * Carries out the four operations, each of which may fail.
         *
         * @param hasName puts the file where it belongs; told whether a power loss leaves it there
         */
        static void write(Faults faults, Consumer<Boolean> hasName) throws Faults.DiskError {
            faults.beforeWrite();
            faults.beforeOperation();
            try {
                faults.beforeOperation();
            } catch (Faults.DiskError error) {
                faults.beforeOperation(); // Kafka tries another kind of rename then.
            }
            hasName.accept(false);
            faults.beforeOperation();
            hasName.accept(true);
        }
    }

    /** The requests of others to one client. It cannot answer those for versions: this does. */
    static final class Requests {
        private static final ApiKeys[] ANSWERED = {
            ApiKeys.FETCH, ApiKeys.API_VERSIONS, ApiKeys.VOTE, ApiKeys.BEGIN_QUORUM_EPOCH,
            ApiKeys.END_QUORUM_EPOCH, ApiKeys.DESCRIBE_QUORUM, ApiKeys.FETCH_SNAPSHOT,
            ApiKeys.ADD_RAFT_VOTER, ApiKeys.REMOVE_RAFT_VOTER, ApiKeys.UPDATE_RAFT_VOTER};

        private final KafkaRaftClient<?> client;
        private final ListenerName listener;
        private final Time time;
        private final Faults faults;
        private final Events events;
        private int nextCorrelationId;

        Requests(KafkaRaftClient<?> client, ListenerName listener, Time time, Faults faults,
                 Events events) {
            this.client = client;
            this.listener = listener;
            this.time = time;
            this.faults = faults;
            this.events = events;
        }

        void handle(long token, short apiKey, short version, byte[] body) {
            ApiMessage data;
            try {
                data = Bodies.readRequest(apiKey, version, body);
            } catch (Bodies.Unreadable error) {
                drop(token, "unreadable: " + error.getMessage()); // A server closes the connection.
                return;
            }
            if (apiKey == ApiKeys.API_VERSIONS.id) {
                answer(token, versions(version), version);
                return;
            }
            if (!isAnswered(apiKey)) {
                drop(token, "API " + apiKey + " is none of the quorum's");
                return;
            }
            RaftRequest.Inbound request = new RaftRequest.Inbound(
                listener, nextCorrelationId++, version, data, time.milliseconds());
            Exchange.handle(client, request, (response, error) -> {
                if (error != null) {
                    drop(token, Diagnosis.of(error));
                } else {
                    answer(token, response.data(), version);
                }
            });
        }

        private static boolean isAnswered(short apiKey) {
            for (ApiKeys api : ANSWERED) {
                if (api.id == apiKey) {
                    return true;
                }
            }
            return false;
        }

        private void answer(long token, ApiMessage body, short version) {
            faults.beforeEffect();
            int before = events.position();
            try {
                events.answered(token, body, version);
            } catch (RuntimeException error) {
                // The answer says something that the asked version cannot say.
                events.cutTo(before);
                events.dropped(token, Diagnosis.of(error));
            }
        }

        private void drop(long token, String reason) {
            faults.beforeEffect();
            events.dropped(token, reason);
        }

        /** The keys of the APIs that it answers, each with its highest version. */
        static int[] maxVersions() {
            return Arrays.stream(ANSWERED)
                .flatMapToInt(api -> IntStream.of(api.id, api.latestVersion(false))).toArray();
        }

        /** What a controller's listener says that it has, of what concerns the quorum. */
        private static ApiVersionsResponseData versions(short version) {
            ApiVersionCollection apis = new ApiVersionCollection();
            for (ApiKeys api : ANSWERED) {
                api.toApiVersion(false).ifPresent(apis::add);
            }
            ApiVersionsResponseData response = new ApiVersionsResponseData()
                .setErrorCode(Errors.NONE.code()).setApiKeys(apis);
            SupportedFeatureKeyCollection features = new SupportedFeatureKeyCollection();
            features.add(new SupportedFeatureKey().setName("kraft.version")
                // Older clients do not understand a lowest level of 0: they are told 1.
                .setMinVersion((short) (version < 4 ? 1 : 0)).setMaxVersion((short) 1));
            return response.setSupportedFeatures(features);
        }
    }

    /**
     * Buffers of a size that simulated batches need. Those of Kafka take 8 MiB each; these grow where
     * more is written.
     */
    static final class SmallBuffers implements MemoryPool {
        private static final int SIZE = 1 << 14;
        private static final int KEPT_MAX = 64;

        private final ArrayDeque<ByteBuffer> free = new ArrayDeque<>();

        @Override public ByteBuffer tryAllocate(int sizeBytes) {
            ByteBuffer buffer = free.poll();
            return buffer == null ? ByteBuffer.allocate(SIZE) : buffer;
        }

        @Override public void release(ByteBuffer buffer) {
            if (buffer.capacity() == SIZE && free.size() < KEPT_MAX) {
                free.push(buffer.clear());
            }
        }

        @Override public long size() {
            return Long.MAX_VALUE;
        }

        @Override public long availableMemory() {
            return Long.MAX_VALUE;
        }

        @Override public boolean isOutOfMemory() {
            return false;
        }
    }

    /** Reads all that is committed, and tells the simulator what it was told. */
    static final class StateMachine implements RaftClient.Listener<byte[]> {
        private final Faults faults;
        private final Events events;

        StateMachine(Faults faults, Events events) {
            this.faults = faults;
            this.events = events;
        }

        @Override public void handleCommit(BatchReader<byte[]> reader) {
            faults.beforeEffect();
            long endOffset = reader.baseOffset();
            try (reader) {
                while (reader.hasNext()) {
                    endOffset = reader.next().lastOffset() + 1;
                }
            }
            events.committed(endOffset);
        }

        @Override public void handleLoadSnapshot(SnapshotReader<byte[]> reader) {
            load(reader);
        }

        // Not marked as an override: releases before 4.3 do not have it.
        public void handleLoadBootstrap(SnapshotReader<byte[]> reader) {
            load(reader);
        }

        private void load(SnapshotReader<byte[]> reader) {
            faults.beforeEffect();
            try (reader) {
                while (reader.hasNext()) {
                    reader.next();
                }
                events.loaded(reader.snapshotId());
            }
        }

        @Override public void handleLeaderChange(LeaderAndEpoch leader) {
            faults.beforeEffect();
            events.leader(leader.epoch(), leader.leaderId().orElse(-1));
        }
    }

    /** One record batch as the log has it: its bytes, and what is asked of them most. */
    record StoredBatch(long baseOffset, long lastOffset, int epoch, byte[] bytes) {
        static StoredBatch copyOf(RecordBatch batch) {
            byte[] bytes = new byte[batch.sizeInBytes()];
            batch.writeTo(ByteBuffer.wrap(bytes));
            return new StoredBatch(
                batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(), bytes);
        }
    }

    /** The batches of a log on a {@link Disk}, and how many of them a power loss leaves. */
    static final class StoredLog {
        private static final byte[] NOTHING = {};

        private final List<StoredBatch> batches = new ArrayList<>();
        private int durableCount;
        private long startOffset;
        private byte[] tornBytes = NOTHING; // Behind the last batch: a part of one being written.
        private boolean isRotten; // The bytes of a batch were changed since they were written.

        List<StoredBatch> batches() {
            return Collections.unmodifiableList(batches);
        }

        byte[] tornBytes() {
            return tornBytes;
        }

        long startOffset() {
            return startOffset;
        }

        long endOffset() {
            return endOf(batches.size());
        }

        long durableEndOffset() {
            return endOf(durableCount);
        }

        private long endOf(int count) {
            return count == 0 ? startOffset : batches.get(count - 1).lastOffset() + 1;
        }

        boolean isFlushed() {
            return durableCount == batches.size();
        }

        void flush() {
            durableCount = batches.size();
        }

        /** Whether not all its bytes are as they were written. */
        boolean isDamaged() {
            return isRotten || tornBytes.length > 0;
        }

        void append(StoredBatch batch) {
            batches.add(batch);
        }

        /** What stays of a batch that was being written. */
        void appendTorn(byte[] bytes) {
            tornBytes = bytes;
        }

        /** Of the batch that has the offset, or of the next one. */
        int indexOf(long offset) {
            int low = 0;
            int high = batches.size();
            while (low < high) {
                int middle = (low + high) >>> 1;
                if (batches.get(middle).lastOffset() < offset) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return low;
        }

        /**
         * Reads from a batch on, as a file is read: the first batch whole, the last one as far as the
         * limit goes. Null where no batch begins before {@code until}.
         */
        ByteBuffer read(int first, long until, int maxBytes) {
            int last = first;
            int size = 0;
            while (last < batches.size() && batches.get(last).baseOffset() < until
                    && (last == first || size < maxBytes)) {
                int length = batches.get(last).bytes().length;
                size += last == first ? length : Math.min(length, maxBytes - size);
                last++;
            }
            if (last == first) {
                return null;
            }
            if (last == first + 1) {
                return ByteBuffer.wrap(batches.get(first).bytes());
            }
            ByteBuffer content = ByteBuffer.allocate(size);
            for (int i = first; i < last; i++) {
                byte[] bytes = batches.get(i).bytes();
                content.put(bytes, 0, Math.min(bytes.length, content.remaining()));
            }
            return content.flip();
        }

        /** Drops batches from the end until {@code count} are left. */
        void keep(int count) {
            batches.subList(count, batches.size()).clear();
            durableCount = Math.min(durableCount, count);
            tornBytes = NOTHING;
        }

        /** Empties the log. */
        void restartAt(long offset) {
            keep(0);
            startOffset = offset;
        }

        /** Lets the log begin here; false: no batch lay before it. */
        boolean moveStart(long offset) {
            int dropped = indexOf(offset);
            batches.subList(0, dropped).clear();
            durableCount = Math.max(0, durableCount - dropped);
            startOffset = offset;
            return dropped > 0;
        }

        /** Puts the batches in the place of what the disk had, of which so many are the same. */
        void replace(List<StoredBatch> recovered, int sameCount) {
            int durable = Math.min(durableCount, sameCount);
            keep(0);
            batches.addAll(recovered);
            durableCount = durable;
            isRotten = false;
        }

        /** The power is gone. What the disk has after that, it has for good. */
        void losePower(int keptCount, int tornCount) {
            int kept = (int) Math.min(batches.size(), (long) durableCount + keptCount);
            byte[] next = kept < batches.size() ? batches.get(kept).bytes() : tornBytes;
            byte[] torn = Arrays.copyOf(next, Math.min(tornCount, next.length));
            keep(kept);
            tornBytes = torn;
            durableCount = kept;
        }

        /** Flips bits of the batch with this base offset; false: there is none, or it is shorter. */
        boolean rot(long baseOffset, int position, int mask) {
            int index = indexOf(baseOffset);
            if (index == batches.size()) {
                return false;
            }
            StoredBatch batch = batches.get(index);
            if (batch.baseOffset() != baseOffset || position < 0
                    || position >= batch.bytes().length) {
                return false;
            }
            byte[] bytes = batch.bytes().clone();
            bytes[position] ^= (byte) mask;
            batches.set(index, new StoredBatch(baseOffset, batch.lastOffset(), batch.epoch(), bytes));
            isRotten = true;
            return true;
        }

        /** CRC-32C over all its bytes. */
        int crc32c() {
            CRC32C crc = new CRC32C();
            for (StoredBatch batch : batches) {
                crc.update(batch.bytes(), 0, batch.bytes().length);
            }
            return (int) crc.getValue();
        }

        long size() {
            long size = 0;
            for (StoredBatch batch : batches) {
                size += batch.bytes().length;
            }
            return size;
        }
    }

    /**
     * Random numbers that depend on the time and not on how many were drawn before: an implementation
     * that draws more often draws the same. There are a thousand steps below a bound, so that what is
     * drawn of whole seconds is whole milliseconds.
     */
    static final class TimedDraws extends Random {
        private static final long serialVersionUID = 1;
        private static final long STEPS = 1000;

        private final long seed;
        private final transient Time time;

        TimedDraws(long seed, Time time) {
            this.seed = seed;
            this.time = time;
        }

        @Override public int nextInt(int bound) {
            return (int) (step(seed, time.milliseconds()) * bound / STEPS);
        }

        private static long step(long seed, long timeMs) {
            long mixed = seed + timeMs * 0x9E3779B97F4A7C15L;
            mixed = (mixed ^ mixed >>> 30) * 0xBF58476D1CE4E5B9L;
            mixed = (mixed ^ mixed >>> 27) * 0x94D049BB133111EBL;
            return Long.remainderUnsigned(mixed ^ mixed >>> 31, STEPS);
        }
    }

    /** The highest version of each API that a node may send, to each peer. The last word counts. */
    static final class VersionCaps {
        static final int ALL_PEERS = -1;

        private record Key(int peer, short apiKey) { }

        private final Map<Key, Short> caps = new HashMap<>();

        void set(int peer, short apiKey, short maxVersion) {
            if (peer == ALL_PEERS) {
                caps.keySet().removeIf(key -> key.apiKey == apiKey);
            }
            caps.put(new Key(peer, apiKey), maxVersion);
        }

        short maxVersion(int peer, short apiKey) {
            if (caps.isEmpty()) {
                return Short.MAX_VALUE;
            }
            Short cap = caps.get(new Key(peer, apiKey));
            return cap != null ? cap
                : caps.getOrDefault(new Key(ALL_PEERS, apiKey), Short.MAX_VALUE);
        }
    }

    /**
     * The metadata log over a {@link Disk}, with the results, errors and side effects of Kafka's own.
     *
     * <p>It differs in one thing: Kafka deletes whole segments, so that the log may begin earlier again
     * after a restart. Here each checkpoint ends a segment.
     */
    static final class VirtualLog implements RaftLog {
        /** Where a record is. Kafka compares it, and does not look inside. */
        private record Position(long offset) implements OffsetMetadata { }

        private static final TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);

        private final Disk disk;
        private final StoredLog stored;
        private final LeaderEpochs epochs;
        private final Faults faults;
        private final Events events;
        private final Checkpoints checkpoints;
        private final NodeSettings settings;
        private final LogWriter writer;
        private LogOffsetMetadata highWatermark;
        private long reportedHighWatermark = -1;

        /** Opens what the disk has. */
        VirtualLog(Disk disk, Faults faults, Events events, NodeSettings settings, long seed) {
            this.disk = disk;
            this.stored = disk.log;
            this.epochs = disk.leaderEpochs;
            this.faults = faults;
            this.events = events;
            this.settings = settings;
            this.writer = new LogWriter(disk, faults, events, seed);
            this.checkpoints = new Checkpoints(disk, faults, events);
            try {
                Recovery.run(stored, faults);
            } catch (Faults.DiskError error) {
                throw storageError("open", error);
            }
            events.recovered(stored.startOffset(), stored.endOffset(), stored.durableEndOffset(),
                stored.crc32c(), disk.election == null ? null : disk.election.state());
            epochs.recover(stored.batches(), stored.startOffset(), stored.endOffset());
            highWatermark = new LogOffsetMetadata(stored.startOffset());
            checkpoints.deleteBefore(stored.startOffset());
            truncateToLatestSnapshot();
        }

        private void beforeChange(String what) {
            faults.beforeEffect();
            try {
                faults.beforeOperation();
            } catch (Faults.DiskError error) {
                throw storageError(what, error);
            }
        }

        static KafkaStorageException storageError(String what, Faults.DiskError error) {
            return new KafkaStorageException("cannot " + what + " the log", error);
        }

        // ---- appends -------------------------------------------------------------------------------

        @Override public LogAppendInfo appendAsLeader(Records records, int epoch) {
            return writer.append((MemoryRecords) records, epoch, true);
        }

        @Override public LogAppendInfo appendAsFollower(Records records, int epoch) {
            return writer.append((MemoryRecords) records, epoch, false);
        }

        /** What releases before 4.1 call: they do not compare the epochs of the batches. */
        public LogAppendInfo appendAsFollower(Records records) {
            return writer.append((MemoryRecords) records, Integer.MAX_VALUE, false);
        }

        @Override public void flush(boolean forceFlushActiveSegment) {
            if (stored.isFlushed()) {
                return;
            }
            beforeChange("flush");
            stored.flush();
            events.flushed(stored.endOffset());
        }

        // ---- reads ---------------------------------------------------------------------------------

        /** What releases before 4.3 call: the limit is configured for the log. */
        public LogFetchInfo read(long startOffset, Isolation isolation) {
            return read(startOffset, isolation, settings.fetchMaxBytes());
        }

        @Override public LogFetchInfo read(long startOffset, Isolation isolation, int maxBytes) {
            if (startOffset < stored.startOffset() || startOffset > stored.endOffset()) {
                throw new OffsetOutOfRangeException("offset " + startOffset + ", where the log has "
                    + stored.startOffset() + " to " + stored.endOffset());
            }
            long until = isolation == Isolation.COMMITTED ? highWatermark.offset()
                : stored.endOffset();
            int first = stored.indexOf(startOffset);
            ByteBuffer content = stored.read(first, until, maxBytes);
            long offset = startOffset == until || first == stored.batches().size() ? startOffset
                : stored.batches().get(first).baseOffset();
            return new LogFetchInfo(content == null ? MemoryRecords.EMPTY
                : MemoryRecords.readableRecords(content), at(offset));
        }

        private static LogOffsetMetadata at(long offset) {
            return new LogOffsetMetadata(offset, Optional.of(new Position(offset)));
        }

        // ---- offsets and epochs --------------------------------------------------------------------

        @Override public long startOffset() {
            return stored.startOffset();
        }

        @Override public LogOffsetMetadata endOffset() {
            return at(stored.endOffset());
        }

        @Override public LogOffsetMetadata highWatermark() {
            return highWatermark;
        }

        @Override public void updateHighWatermark(LogOffsetMetadata offset) {
            highWatermark = offset;
            reportHighWatermark(offset.offset());
        }

        /** Tells the simulator, unless it knows; -1: the client does not know it any more. */
        void reportHighWatermark(long offset) {
            if (offset != reportedHighWatermark) {
                reportedHighWatermark = offset;
                events.highWatermark(offset);
            }
        }

        @Override public int lastFetchedEpoch() {
            OffsetAndEpoch snapshot = latestSnapshotId().orElse(null);
            if (epochs.latest().isPresent() || snapshot == null) {
                return epochs.latest().orElse(0);
            }
            if (snapshot.offset() != stored.startOffset() || snapshot.offset() != stored.endOffset()) {
                throw new KafkaException("the log has no epoch, and begins at " + stored.startOffset()
                    + " and ends at " + stored.endOffset() + " beside the snapshot " + snapshot);
            }
            return snapshot.epoch();
        }

        @Override public OffsetAndEpoch endOffsetForEpoch(int epoch) {
            OffsetAndEpoch found = epochs.endOffsetOf(epoch, stored.endOffset());
            if (found == null) {
                return new OffsetAndEpoch(stored.endOffset(), lastFetchedEpoch());
            }
            // Of epochs before the log, only the end of the earliest checkpoint is known.
            Optional<OffsetAndEpoch> earliest = earliestSnapshotId();
            return earliest.isPresent() && found.epoch() == epoch
                && found.offset() == earliest.get().offset() ? earliest.get() : found;
        }

        @Override public void initializeLeaderEpoch(int epoch) {
            epochs.assign(epoch, stored.endOffset());
        }

        // ---- cuts ----------------------------------------------------------------------------------

        @Override public void truncateTo(long offset) {
            if (offset < highWatermark.offset()) {
                throw new IllegalArgumentException("cannot truncate to offset " + offset
                    + ", below the high watermark " + highWatermark.offset());
            }
            if (offset < stored.endOffset()) {
                beforeChange("truncate");
                stored.keep(stored.indexOf(offset));
                events.truncated(stored.endOffset());
            }
            epochs.truncateFromEnd(offset);
        }

        @Override public boolean truncateToLatestSnapshot() {
            OffsetAndEpoch latest = latestSnapshotId().orElse(null);
            int epoch = epochs.latest().orElse(0);
            if (latest == null || latest.epoch() < epoch
                    || latest.epoch() == epoch && latest.offset() <= stored.endOffset()) {
                return false;
            }
            beforeChange("replace");
            stored.restartAt(latest.offset());
            epochs.clear();
            highWatermark = at(latest.offset());
            events.reset(latest);
            checkpoints.deleteBefore(latest);
            return true;
        }

        @Override public boolean deleteBeforeSnapshot(OffsetAndEpoch id) {
            if (!checkpoints.has(id) || id.offset() <= stored.startOffset()
                    || id.offset() > disk.checkpoints.lastKey().offset()) {
                return false;
            }
            if (id.offset() > highWatermark.offset()) {
                throw new OffsetOutOfRangeException("the log cannot begin at " + id.offset()
                    + ", above the high watermark " + highWatermark.offset());
            }
            beforeChange("delete segments of");
            boolean isDeleted = stored.moveStart(id.offset());
            epochs.truncateFromStart(id.offset());
            events.startMoved(id);
            return checkpoints.deleteBefore(id) | isDeleted;
        }

        /** Deletes checkpoints, oldest first, while they and the log are larger than allowed. */
        @Override public boolean maybeClean() {
            if (settings.retentionBytes() < 0) {
                return false;
            }
            long checkpointsSize = disk.checkpoints.values().stream()
                .mapToLong(checkpoint -> checkpoint.content().length).sum();
            boolean isCleaned = false;
            Iterator<OffsetAndEpoch> ids = List.copyOf(disk.checkpoints.keySet()).iterator();
            OffsetAndEpoch id = ids.hasNext() ? ids.next() : null;
            while (ids.hasNext()) {
                OffsetAndEpoch next = ids.next();
                int size = disk.checkpoints.get(id).content().length;
                if (stored.size() + checkpointsSize <= settings.retentionBytes()
                        || !deleteBeforeSnapshot(next)) {
                    break;
                }
                checkpointsSize -= size;
                isCleaned = true;
                id = next;
            }
            return isCleaned;
        }

        // ---- checkpoints ---------------------------------------------------------------------------

        @Override public Optional<RawSnapshotWriter> createNewSnapshot(OffsetAndEpoch id) {
            if (id.offset() < stored.startOffset()) {
                return Optional.empty();
            }
            if (id.offset() > highWatermark.offset()) {
                throw new IllegalArgumentException("a snapshot up to " + id
                    + ", above the high watermark " + highWatermark.offset());
            }
            ValidOffsetAndEpoch nearest = validateOffsetAndEpoch(id.offset(), id.epoch());
            if (nearest.kind() != ValidOffsetAndEpoch.Kind.VALID) {
                throw new IllegalArgumentException(
                    "a snapshot up to " + id + ", where the log has " + nearest);
            }
            long batchOffset = read(id.offset(), Isolation.COMMITTED, 1).startOffsetMetadata.offset();
            if (batchOffset != id.offset()) {
                throw new IllegalArgumentException("a snapshot up to " + id
                    + ", inside the batch at " + batchOffset);
            }
            return checkpoints.create(id, true);
        }

        /** Kafka calls this one itself for what it fetches. */
        @Override public Optional<RawSnapshotWriter> createNewSnapshotUnchecked(OffsetAndEpoch id) {
            return checkpoints.create(id, false);
        }

        @Override public Optional<RawSnapshotReader> readSnapshot(OffsetAndEpoch id) {
            return checkpoints.read(id);
        }

        @Override public Optional<RawSnapshotReader> latestSnapshot() {
            return latestSnapshotId().flatMap(checkpoints::read);
        }

        @Override public Optional<OffsetAndEpoch> latestSnapshotId() {
            return disk.checkpoints.isEmpty() ? Optional.empty()
                : Optional.of(disk.checkpoints.lastKey());
        }

        @Override public Optional<OffsetAndEpoch> earliestSnapshotId() {
            return disk.checkpoints.isEmpty() ? Optional.empty()
                : Optional.of(disk.checkpoints.firstKey());
        }

        @Override public void onSnapshotFrozen(OffsetAndEpoch id) { }

        @Override public TopicPartition topicPartition() {
            return PARTITION;
        }

        @Override public Uuid topicId() {
            return Uuid.METADATA_TOPIC_ID;
        }
    }

    /** A clock that the simulator sets. Nothing may wait on it: there is one thread for all. */
    static final class VirtualTime implements Time {
        private long nowUs;

        void set(long nowUs) {
            this.nowUs = nowUs;
        }

        @Override public long milliseconds() {
            return Math.floorDiv(nowUs, 1000L);
        }

        @Override public long nanoseconds() {
            return nowUs * 1000;
        }

        @Override public void sleep(long ms) {
            throw new IllegalStateException("the client sleeps");
        }

        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new IllegalStateException("the client waits");
        }
    }
}
