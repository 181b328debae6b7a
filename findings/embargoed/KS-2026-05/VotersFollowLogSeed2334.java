package org.apache.kafka.raft;


/**
 * A node acts on the last voter set in its log, committed or not. Here it is not so, with Apache
 * Kafka 4.4.0.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory: see the end of this file. Other nodes are played by the
 * sequence.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 2334 --events 1500 --java DIR}.
 */
public final class VotersFollowLogSeed2334 {
    private static final Property PROPERTY = new VotersFollowLog();
    private static int stepCount;

    private static void sequence() {
        Node node1 = new Node(1, PROPERTY, new NodeSettings(
            Uuid.fromString("msmuWGOpFddZjUlftWCPdA"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(0, 1, 2), // staticVoters
            List.of(), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            1_048_576, // fetchMaxBytes
            1_048_576, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 1: starts.");
        node1.start(238_069, 125_313_424_879_108L);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 0; is unattached of epoch 0

        step("Node 1: its clock strikes.");
        node1.tick(1_268_000);
        // → sends VOTE to node 0; sends VOTE to node 2; is prospective of epoch 0

        step("Node 1: receives VoteReply(leader_epoch=0, vote_granted=True) from node 2.");
        node1.receiveReply(
            1_305_970,
            2,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setVoteGranted(true))))));
        // → stores epoch 1, voted for 1; sends VOTE to node 0; sends VOTE to node 2; is
        //   candidate of epoch 1

        step("Node 1: receives VoteReply(leader_epoch=1, vote_granted=True) from node 2.");
        node1.receiveReply(
            1_331_513,
            2,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(1)
                                .setVoteGranted(true))))));
        // → stores epoch 1, leader 1; log to 1, epoch 1; durable to 1; sends BEGIN_QUORUM_EPOCH
        //   to node 0; sends BEGIN_QUORUM_EPOCH to node 2; is leader of epoch 1

        step("Node 1: receives Fetch(leader_epoch=1, fetch_offset=1, last_fetched_epoch=1) from "
            + "node 0.");
        node1.receive(
            3_267_805,
            18,
            new FetchRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setReplicaState(new FetchRequestData.ReplicaState().setReplicaId(0))
                .setMaxWaitMs(500)
                .setMaxBytes(1048576)
                .setTopics(List.of(
                    new FetchRequestData.FetchTopic()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchRequestData.FetchPartition()
                                .setCurrentLeaderEpoch(1)
                                .setFetchOffset(1L)
                                .setLastFetchedEpoch(1)
                                .setReplicaDirectoryId(Uuid.fromString("mZLEwFC4wYJicxIt2uL43A"))
                                .setHighWatermark(-1L))))));
        // → high watermark 1; its state machine reads to 1; answers FETCH; its state machine is
        //   told to lead epoch 1

        step("Node 1: receives UpdateVoter(leader_epoch=1, voter_id=2) from node 2.");
        node1.receive(
            3_726_000,
            0,
            new UpdateRaftVoterRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setCurrentLeaderEpoch(1)
                .setVoterId(2)
                .setVoterDirectoryId(Uuid.fromString("momYcB4dsFUN9mowmY85Ww"))
                .setListeners(new UpdateRaftVoterRequestData.ListenerCollection(List.of(
                    new UpdateRaftVoterRequestData.Listener()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9002)).iterator()))
                .setKRaftVersionFeature(new UpdateRaftVoterRequestData.KRaftVersionFeature()
                    .setMaxSupportedVersion((short) 1)));
        // → answers UPDATE_RAFT_VOTER

        step("Node 1: receives UpdateVoter(leader_epoch=1, voter_id=0) from node 0.");
        node1.receive(
            3_726_000,
            0,
            new UpdateRaftVoterRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setCurrentLeaderEpoch(1)
                .setVoterDirectoryId(Uuid.fromString("mZLEwFC4wYJicxIt2uL43A"))
                .setListeners(new UpdateRaftVoterRequestData.ListenerCollection(List.of(
                    new UpdateRaftVoterRequestData.Listener()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9000)).iterator()))
                .setKRaftVersionFeature(new UpdateRaftVoterRequestData.KRaftVersionFeature()
                    .setMaxSupportedVersion((short) 1)));
        // → answers UPDATE_RAFT_VOTER

        step("Node 1: is asked to raise kraft.version.");
        node1.upgrade(4_594_833, 1, 1);
        // → kraft.version 1 is taken; log to 3, epoch 1; durable to 3; sends BEGIN_QUORUM_EPOCH
        //   to node 2; sends BEGIN_QUORUM_EPOCH to node 0; acts on the voters of offset 2

        step("Node 1: its clock strikes.");
        node1.tick(6_726_000);
        // → sends END_QUORUM_EPOCH to node 2; sends END_QUORUM_EPOCH to node 0; is resigned of
        //   epoch 1

        step("Node 1: receives EndEpochReply(leader_epoch=2, leader_id=0, error=74) from node 0.");
        node1.receiveReply(
            6_726_000,
            0,
            new EndQuorumEpochResponseData()
                .setTopics(List.of(
                    new EndQuorumEpochResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new EndQuorumEpochResponseData.PartitionData()
                                .setErrorCode(Errors.FENCED_LEADER_EPOCH.code())
                                .setLeaderEpoch(2)))))
                .setNodeEndpoints(new EndQuorumEpochResponseData.NodeEndpointCollection(List.of(
                    new EndQuorumEpochResponseData.NodeEndpoint()
                        .setHost("localhost")
                        .setPort(9000)).iterator())));
        // → stores epoch 2, leader 0; sends FETCH to node 0; is follower of epoch 2

        step("Node 1: receives FetchReply(leader_epoch=2, leader_id=0, high_watermark=2, "
            + "snapshot_end_offset=2, snapshot_epoch=2) from node 0.");
        node1.receiveReply(
            6_726_000,
            0,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(2L)
                                .setLogStartOffset(0L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(0)
                                    .setLeaderEpoch(2))
                                .setSnapshotId(new FetchResponseData.SnapshotId()
                                    .setEndOffset(2L)
                                    .setEpoch(2))
                                .setRecords(Batches.records())))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setHost("localhost")
                        .setPort(9000)).iterator())));
        // → sends FETCH_SNAPSHOT to node 0

        step("Node 1: receives FetchSnapshotReply(leader_epoch=2, leader_id=0, "
            + "snapshot_end_offset=2, snapshot_epoch=2, position=0) from node 0.");
        node1.receiveReply(
            6_726_000,
            0,
            new FetchSnapshotResponseData()
                .setTopics(List.of(
                    new FetchSnapshotResponseData.TopicSnapshot()
                        .setName("__cluster_metadata")
                        .setPartitions(List.of(
                            new FetchSnapshotResponseData.PartitionSnapshot()
                                .setSnapshotId(new FetchSnapshotResponseData.SnapshotId()
                                    .setEndOffset(2L)
                                    .setEpoch(2))
                                .setCurrentLeader(new FetchSnapshotResponseData.LeaderIdAndEpoch()
                                    .setLeaderEpoch(2))
                                .setSize(238L)
                                .setUnalignedRecords(Batches.piece("0000000000000000000000470000000202c9c87c6b00200000000000000000000016730000000000001673ffffffffffffffffffffffffffff000000012a0000000800000003160000000000000000000000000000000000000001000000440000000202d1f8a0d300000000000000000000000016730000000000001673ffffffffffffffffffffffffffff000000012400000001180000000000000002fec264170000000000000000020000003f00000002029a393ce500200000000000000000000016730000000000001673ffffffffffffffffffffffffffff000000011a00000008000000040600000000"))))))
                .setNodeEndpoints(new FetchSnapshotResponseData.NodeEndpointCollection(List.of(
                    new FetchSnapshotResponseData.NodeEndpoint()
                        .setHost("localhost")
                        .setPort(9000)).iterator())));
        // → has snapshot 2-2; log starts anew at 2; high watermark 2; its state machine loads
        //   snapshot 2-2; sends FETCH to node 0
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
