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
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 1225 --events 1500 --java DIR}.
 */
public final class VotersFollowLogSeed1225 {
    private static final Property PROPERTY = new VotersFollowLog();
    private static int stepCount;

    private static void sequence() {
        Node node1 = new Node(1, PROPERTY, new NodeSettings(
            Uuid.fromString("69mvG7T9eSKPKTyifTU0kw"), // directoryId
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
        node1.start(64_474, 108_205_834_668_749L);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 1: receives Vote(epoch=1, last_epoch=0, end_offset=0, voter_id=1) from node "
            + "0.");
        node1.receive(
            1_637_576,
            2,
            new VoteRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setVoterId(1)
                .setTopics(List.of(
                    new VoteRequestData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteRequestData.PartitionData()
                                .setReplicaEpoch(1)
                                .setReplicaDirectoryId(Uuid.fromString("YEAROKaicd5S7Fj3vQ4B0Q")))))));
        // → stores epoch 1; stores epoch 1, voted for 0; answers VOTE; sends FETCH to node 1;
        //   is unattached of epoch 1

        step("Node 1: its clock strikes.");
        node1.tick(3_794_000);
        // → sends VOTE to node 0; sends VOTE to node 2; is prospective of epoch 1

        step("Node 1: receives VoteReply(leader_epoch=1, vote_granted=True) from node 2.");
        node1.receiveReply(
            3_857_310,
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
        // → stores epoch 2, voted for 1; sends VOTE to node 0; sends VOTE to node 2; is
        //   candidate of epoch 2

        step("Node 1: receives VoteReply(leader_epoch=2, vote_granted=True) from node 2.");
        node1.receiveReply(
            3_908_854,
            2,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(2)
                                .setVoteGranted(true))))));
        // → stores epoch 2, leader 1; log to 1, epoch 2; durable to 1; sends BEGIN_QUORUM_EPOCH
        //   to node 2; sends BEGIN_QUORUM_EPOCH to node 0; is leader of epoch 2

        step("Node 1: appends 2 records.");
        node1.append(5_663_163, 2, "record 0", "record 1");
        // → takes the records as offsets 1 to 2

        step("Node 1: appends 3 records.");
        node1.append(
            5_663_163,
            2,
            "record 0",
            "record 1",
            "record 2");
        // → takes the records as offsets 3 to 5

        step("Node 1: its clock strikes.");
        node1.tick(5_688_000);
        // → log to 6, epoch 2; durable to 6

        step("Node 1: its clock strikes.");
        node1.tick(8_688_000);
        // → sends END_QUORUM_EPOCH to node 2; sends END_QUORUM_EPOCH to node 0; is resigned of
        //   epoch 2

        step("Node 1: receives EndEpochReply(leader_epoch=3, leader_id=0, error=74) from node 0.");
        node1.receiveReply(
            8_727_630,
            0,
            new EndQuorumEpochResponseData()
                .setTopics(List.of(
                    new EndQuorumEpochResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new EndQuorumEpochResponseData.PartitionData()
                                .setErrorCode(Errors.FENCED_LEADER_EPOCH.code())
                                .setLeaderEpoch(3)))))
                .setNodeEndpoints(new EndQuorumEpochResponseData.NodeEndpointCollection(List.of(
                    new EndQuorumEpochResponseData.NodeEndpoint()
                        .setHost("localhost")
                        .setPort(9000)).iterator())));
        // → stores epoch 3, leader 0; sends FETCH to node 0; is follower of epoch 3

        step("Node 1: receives FetchReply(leader_epoch=3, leader_id=0, diverging_epoch=2, "
            + "diverging_end_offset=1) from node 0.");
        node1.receiveReply(
            8_754_591,
            0,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(-1L)
                                .setLogStartOffset(1L)
                                .setDivergingEpoch(new FetchResponseData.EpochEndOffset()
                                    .setEpoch(2)
                                    .setEndOffset(1L))
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(0)
                                    .setLeaderEpoch(3))
                                .setRecords(Batches.records())))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setHost("localhost")
                        .setPort(9000)).iterator())));
        // → cuts its log at 1; sends FETCH to node 0

        step("Node 1: receives BeginEpoch(leader_epoch=4, leader_id=2, voter_id=1) from node 2.");
        node1.receive(
            11_404_592,
            1,
            new BeginQuorumEpochRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setVoterId(1)
                .setTopics(List.of(
                    new BeginQuorumEpochRequestData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new BeginQuorumEpochRequestData.PartitionData()
                                .setLeaderId(2)
                                .setLeaderEpoch(4)))))
                .setLeaderEndpoints(new BeginQuorumEpochRequestData.LeaderEndpointCollection(List.of(
                    new BeginQuorumEpochRequestData.LeaderEndpoint()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → stores epoch 4, leader 2; answers BEGIN_QUORUM_EPOCH; sends FETCH to node 2; is
        //   follower of epoch 4

        step("Node 1: receives FetchReply(leader_epoch=4, leader_id=2, offsets 1 to 1) from node "
            + "2.");
        node1.receiveReply(
            11_451_104,
            2,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(-1L)
                                .setLogStartOffset(0L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(4))
                                .setRecords(Batches.records(
                                    Batches.control(
                                        1, 4,
                                        new LeaderChangeMessage()
                                            .setLeaderId(2)
                                            .setVoters(List.of(
                                                new LeaderChangeMessage.Voter(),
                                                new LeaderChangeMessage.Voter().setVoterId(1),
                                                new LeaderChangeMessage.Voter().setVoterId(2)))
                                            .setGrantingVoters(List.of(
                                                new LeaderChangeMessage.Voter().setVoterId(1),
                                                new LeaderChangeMessage.Voter().setVoterId(2))))))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → log to 2, epoch 4; durable to 2; sends FETCH to node 2

        step("Node 1: its clock strikes.");
        node1.tick(14_733_000);
        // → sends VOTE to node 0; sends VOTE to node 2; is prospective of epoch 4

        step("Node 1: receives VoteReply(leader_epoch=4, vote_granted=True) from node 0.");
        node1.receiveReply(
            14_770_393,
            0,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(4)
                                .setVoteGranted(true))))));
        // → stores epoch 5, voted for 1; sends VOTE to node 0; sends VOTE to node 2; is
        //   candidate of epoch 5

        step("Node 1: receives VoteReply(leader_epoch=5, vote_granted=True) from node 0.");
        node1.receiveReply(
            14_817_485,
            0,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(5)
                                .setVoteGranted(true))))));
        // → stores epoch 5, leader 1; log to 3, epoch 5; durable to 3; sends BEGIN_QUORUM_EPOCH
        //   to node 2; sends BEGIN_QUORUM_EPOCH to node 0; is leader of epoch 5

        step("Node 1: receives Fetch(leader_epoch=5, fetch_offset=3, last_fetched_epoch=5) from "
            + "node 2.");
        node1.receive(
            16_554_563,
            18,
            new FetchRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setReplicaState(new FetchRequestData.ReplicaState().setReplicaId(2))
                .setMaxWaitMs(500)
                .setMaxBytes(1048576)
                .setTopics(List.of(
                    new FetchRequestData.FetchTopic()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchRequestData.FetchPartition()
                                .setCurrentLeaderEpoch(5)
                                .setFetchOffset(3L)
                                .setLastFetchedEpoch(5)
                                .setReplicaDirectoryId(Uuid.fromString("VMQ7aQgBS_QA-Yv98tEAzQ"))
                                .setHighWatermark(-1L))))));
        // → high watermark 3; its state machine reads to 3; answers FETCH; its state machine is
        //   told to lead epoch 5

        step("Node 1: receives UpdateVoter(leader_epoch=5, voter_id=0) from node 0.");
        node1.receive(
            17_164_000,
            0,
            new UpdateRaftVoterRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setCurrentLeaderEpoch(5)
                .setVoterDirectoryId(Uuid.fromString("YEAROKaicd5S7Fj3vQ4B0Q"))
                .setListeners(new UpdateRaftVoterRequestData.ListenerCollection(List.of(
                    new UpdateRaftVoterRequestData.Listener()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9000)).iterator()))
                .setKRaftVersionFeature(new UpdateRaftVoterRequestData.KRaftVersionFeature()
                    .setMaxSupportedVersion((short) 1)));
        // → answers UPDATE_RAFT_VOTER

        step("Node 1: receives UpdateVoter(leader_epoch=5, voter_id=2) from node 2.");
        node1.receive(
            18_176_450,
            0,
            new UpdateRaftVoterRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setCurrentLeaderEpoch(5)
                .setVoterId(2)
                .setVoterDirectoryId(Uuid.fromString("VMQ7aQgBS_QA-Yv98tEAzQ"))
                .setListeners(new UpdateRaftVoterRequestData.ListenerCollection(List.of(
                    new UpdateRaftVoterRequestData.Listener()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9002)).iterator()))
                .setKRaftVersionFeature(new UpdateRaftVoterRequestData.KRaftVersionFeature()
                    .setMaxSupportedVersion((short) 1)));
        // → sends BEGIN_QUORUM_EPOCH to node 2; sends BEGIN_QUORUM_EPOCH to node 0; answers
        //   UPDATE_RAFT_VOTER

        step("Node 1: is asked to raise kraft.version.");
        node1.upgrade(18_903_778, 1, 5);
        // → kraft.version 1 is taken; log to 5, epoch 5; durable to 5
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
