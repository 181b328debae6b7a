package org.apache.kafka.raft;


/**
 * What is committed at an offset has the same bytes on all nodes. Here it is not so, with Apache
 * Kafka 4.4.0: an epoch has two leaders, and both commit.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory: see the end of this file. Nodes 0 and 4 are two clients. Nodes
 * 1, 2 and 3 are played by the sequence. They do what correct nodes may do: each votes once in an
 * epoch, and only for a node whose log is as up to date as its own.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by hand.
 */
public final class TwoLeadersOfAnEpoch {
    private static final Property PROPERTY = new Property() {
        private record Committed(Node node, StoredBatch batch) { }

        private final Map<Long, Committed> first = new HashMap<>(); // By offset.

        @Override void highWatermark(Node node, long offset) {
            for (StoredBatch batch : node.host.life.disk.log.batches()) {
                if (batch.lastOffset() < offset) {
                    compare(node, batch);
                }
            }
        }

        private void compare(Node node, StoredBatch batch) {
            Committed before = first.computeIfAbsent(
                batch.baseOffset(), offset -> new Committed(node, batch));
            if (!Arrays.equals(batch.bytes(), before.batch.bytes())) {
                throw new Broken("node " + node.id + " has committed offset " + batch.baseOffset()
                    + " of epoch " + batch.epoch() + ", and node " + before.node.id
                    + " other bytes at offset " + before.batch.baseOffset() + " of epoch "
                    + before.batch.epoch());
            }
        }
    };
    private static final int PROSPECTIVE = 1;
    private static final int CANDIDATE = 2;
    private static int stepCount;

    private static void sequence() {
        Node node0 = new Node(0, PROPERTY, settings(0));
        Node node4 = new Node(4, PROPERTY, settings(4));
        byte[] node1Leads = Batches.control(3, 2, new LeaderChangeMessage().setLeaderId(1));
        byte[] adds3 = Batches.control(4, 2, voters(0, 1, 2, 3));
        byte[] adds4 = Batches.control(5, 2, voters(0, 1, 2, 3, 4));

        // ---- epoch 1: node 0 leads, and appends what nobody else has. The logs were empty.

        step("Node 0: is formatted with the voters 0, 1 and 2, and starts.");
        node0.install(
            0,
            0,
            Batches.control(
                0, 0,
                new SnapshotHeaderRecord(),
                new KRaftVersionRecord().setKRaftVersion((short) 1),
                voters(0, 1, 2),
                new SnapshotFooterRecord()));
        node0.start(0, 1);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 0: its clock strikes: it has heard of no leader.");
        node0.tick(5_000_000);
        // → sends VOTE to node 1; sends VOTE to node 2; is prospective of epoch 0

        step("Node 0: gets the vote of node 2 in epoch 1.");
        votesOf(node0, 5_001_000, 2);
        // → stores epoch 1, voted for 0; sends VOTE to node 1; sends VOTE to node 2; is
        //   candidate of epoch 1; stores epoch 1, leader 0; log to 3, epoch 1; durable to 3;
        //   sends BEGIN_QUORUM_EPOCH to node 2; sends BEGIN_QUORUM_EPOCH to node 1; acts on the
        //   voters of offset 2; is leader of epoch 1

        step("Node 0: node 1 fetches its records, and then what follows.");
        byte[] epoch1 = node0.host.life.disk.log.batches().get(0).bytes();
        fetch(node0, 5_002_000, 1, 0, 0);
        fetch(node0, 5_003_000, 1, 3, 1);
        // → answers FETCH; high watermark 3; its state machine loads snapshot 0-0; its state
        //   machine reads to 3; its state machine is told to lead epoch 1

        step("Node 0: appends three records. Its answer to node 1 is lost.");
        node0.append(5_004_000, 1, "record 3", "record 4", "record 5");
        // → takes the records as offsets 3 to 5; log to 6, epoch 1; answers FETCH; durable to 6

        // ---- epoch 2: node 1 leads by the votes of 1 and 2, and adds nodes 3 and 4. The log of 1
        // ended at 3, epoch 1, and that of 2 was empty.

        step("Node 4: starts without voters. Node 1 leads epoch 2 by the votes of 1 and 2.");
        node4.start(6_000_000, 1);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 4: node 1 says that it leads.");
        node4.receiveReply(
            6_001_000,
            1,
            ofLeader1(new FetchResponseData.PartitionData()
                .setErrorCode(Errors.FENCED_LEADER_EPOCH.code())
                .setHighWatermark(-1L)));
        // → stores epoch 2, leader 1; sends FETCH to node 1; is follower of epoch 2

        step("Node 4: fetches the log of node 1, which has added node 3.");
        node4.receiveReply(
            6_002_000,
            1,
            ofLeader1(new FetchResponseData.PartitionData()
                .setHighWatermark(5L)
                .setRecords(Batches.records(epoch1, node1Leads, adds3))));
        // → log to 5, epoch 2; durable to 5; high watermark 5; its state machine reads to 5;
        //   acts on the voters of offset 4; sends FETCH to node 1

        step("Node 4: fetches that it is added, too. Nodes 1, 2 and 3 commit this.");
        node4.receiveReply(
            6_003_000,
            1,
            ofLeader1(new FetchResponseData.PartitionData()
                .setHighWatermark(5L)
                .setRecords(Batches.records(adds4))));
        // → log to 6, epoch 2; durable to 6; acts on the voters of offset 5; sends FETCH to
        //   node 1

        step("Node 0: hears that node 1 leads epoch 2.");
        node0.receive(
            6_010_000,
            1,
            new BeginQuorumEpochRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setVoterId(0)
                .setTopics(List.of(
                    new BeginQuorumEpochRequestData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new BeginQuorumEpochRequestData.PartitionData()
                                .setVoterDirectoryId(directoryId(0))
                                .setLeaderId(1)
                                .setLeaderEpoch(2)))))
                .setLeaderEndpoints(new BeginQuorumEpochRequestData.LeaderEndpointCollection(
                    List.of(new BeginQuorumEpochRequestData.LeaderEndpoint()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9001)).iterator())));
        // → stores epoch 2, leader 1; answers BEGIN_QUORUM_EPOCH; sends FETCH to node 1; is
        //   follower of epoch 2

        step("Node 0: its log is not that of node 1 from offset 3 on.");
        node0.receiveReply(
            6_011_000,
            1,
            ofLeader1(new FetchResponseData.PartitionData()
                .setHighWatermark(6L)
                .setDivergingEpoch(new FetchResponseData.EpochEndOffset()
                    .setEpoch(1)
                    .setEndOffset(3L))));
        // → cuts its log at 3; sends FETCH to node 1

        step("Node 0: fetches the log of node 1. Its last voters are 0 to 4, at offset 5.");
        node0.receiveReply(
            6_012_000,
            1,
            ofLeader1(new FetchResponseData.PartitionData()
                .setHighWatermark(6L)
                .setRecords(Batches.records(node1Leads, adds3, adds4))));
        // → log to 6, epoch 2; durable to 6; high watermark 6; its state machine reads to 6;
        //   sends FETCH to node 1

        // Node 0 has read control records up to 6 before, and does not read these. It acts on the
        // voters 0, 1 and 2 of its own record at offset 2.

        // ---- epoch 3: the process of node 1 ends and starts again, so that it does not lead, and
        // the network is cut between 0, 2 and 1, 3, 4. All logs end at 6, epoch 2. Node 2 votes for
        // node 0, and nodes 1 and 3 vote for node 4.

        step("Node 0: its clock strikes: it has heard nothing of node 1.");
        node0.tick(10_000_000);
        // → sends VOTE to node 1; sends VOTE to node 2; is prospective of epoch 2

        step("Node 0: gets the vote of node 2 in epoch 3. These are two of five voters.");
        votesOf(node0, 10_001_000, 2);
        // → stores epoch 3, voted for 0; sends VOTE to node 1; sends VOTE to node 2; is
        //   candidate of epoch 3; stores epoch 3, leader 0; log to 7, epoch 3; durable to 7;
        //   sends BEGIN_QUORUM_EPOCH to node 2; sends BEGIN_QUORUM_EPOCH to node 1; is leader
        //   of epoch 3

        step("Node 0: node 2 fetches its record, and then what follows.");
        fetch(node0, 10_002_000, 2, 6, 2);
        fetch(node0, 10_003_000, 2, 7, 3);
        // → answers FETCH; high watermark 7; its state machine reads to 7; its state machine is
        //   told to lead epoch 3

        step("Node 4: its clock strikes: it has heard nothing of node 1.");
        node4.tick(10_010_000);
        // → sends VOTE to node 1; sends VOTE to node 3; sends VOTE to node 0; sends VOTE to
        //   node 2; is prospective of epoch 2

        step("Node 4: gets the votes of nodes 1 and 3 in epoch 3. These are three of five voters.");
        votesOf(node4, 10_011_000, 1, 3);
        // → stores epoch 3, voted for 4; sends VOTE to node 1; sends VOTE to node 3; sends VOTE
        //   to node 0; sends VOTE to node 2; is candidate of epoch 3; stores epoch 3, leader 4;
        //   log to 7, epoch 3; durable to 7; sends BEGIN_QUORUM_EPOCH to node 1; sends
        //   BEGIN_QUORUM_EPOCH to node 3; sends BEGIN_QUORUM_EPOCH to node 0; sends
        //   BEGIN_QUORUM_EPOCH to node 2; is leader of epoch 3

        step("Node 4: nodes 1 and 3 fetch its record, and then what follows.");
        for (int peer : List.of(1, 3)) {
            fetch(node4, 10_012_000, peer, 6, 2);
            fetch(node4, 10_012_000, peer, 7, 3);
        }
        // → answers FETCH; answers FETCH; high watermark 7; answers FETCH; its state machine
        //   reads to 7; its state machine is told to lead epoch 3
    }

    // ---- what the played nodes say

    /** They grant what it asks: the pre-vote, which 3.9 does not have, and then the vote. */
    private static void votesOf(Node node, long nowUs, int... peers) {
        for (int role : List.of(PROSPECTIVE, CANDIDATE)) {
            for (int peer : peers) {
                if (node.state().role() == role) {
                    node.receiveReply(
                        nowUs,
                        peer,
                        new VoteResponseData()
                            .setTopics(List.of(
                                new VoteResponseData.TopicData()
                                    .setTopicName("__cluster_metadata")
                                    .setPartitions(List.of(
                                        new VoteResponseData.PartitionData()
                                            .setLeaderId(-1)
                                            .setLeaderEpoch(node.state().epoch())
                                            .setVoteGranted(true))))));
                }
            }
        }
    }

    /** What node 1 answers to a FETCH in epoch 2. */
    private static FetchResponseData ofLeader1(FetchResponseData.PartitionData partition) {
        return new FetchResponseData()
            .setResponses(List.of(
                new FetchResponseData.FetchableTopicResponse()
                    .setTopicId(Uuid.METADATA_TOPIC_ID)
                    .setPartitions(List.of(
                        partition
                            .setLogStartOffset(0L)
                            .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                .setLeaderId(1)
                                .setLeaderEpoch(2))))))
            .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                new FetchResponseData.NodeEndpoint()
                    .setNodeId(1)
                    .setHost("localhost")
                    .setPort(9001)).iterator()));
    }

    /** It fetches from the leader of the epoch. */
    private static void fetch(Node node, long nowUs, int peer, long offset, int lastEpoch) {
        node.receive(
            nowUs,
            17,
            new FetchRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setReplicaState(new FetchRequestData.ReplicaState().setReplicaId(peer))
                .setMaxWaitMs(500)
                .setMaxBytes(1_048_576)
                .setTopics(List.of(
                    new FetchRequestData.FetchTopic()
                        .setTopicId(Uuid.METADATA_TOPIC_ID)
                        .setPartitions(List.of(
                            new FetchRequestData.FetchPartition()
                                .setCurrentLeaderEpoch(node.state().epoch())
                                .setFetchOffset(offset)
                                .setLastFetchedEpoch(lastEpoch)
                                .setReplicaDirectoryId(directoryId(peer)))))));
    }

    private static VotersRecord voters(int... ids) {
        List<VotersRecord.Voter> voters = new ArrayList<>();
        for (int id : ids) {
            voters.add(new VotersRecord.Voter()
                .setVoterId(id)
                .setVoterDirectoryId(directoryId(id))
                .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                    new VotersRecord.Endpoint()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9000 + id)).iterator()))
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                    .setMaxSupportedVersion((short) 1)));
        }
        return new VotersRecord().setVoters(voters);
    }

    private static Uuid directoryId(int id) {
        return new Uuid(1, id);
    }

    private static NodeSettings settings(int id) {
        return new NodeSettings(
            directoryId(id),
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(), // staticVoters
            List.of(1), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            0, // appendLingerUs
            1_048_576, // fetchMaxBytes
            1_048_576, // fetchSnapshotMaxBytes
            0); // retentionBytes
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
    // python -m kraftspec.simulation.java_example FILE DIR adds them, and a pom.
}
