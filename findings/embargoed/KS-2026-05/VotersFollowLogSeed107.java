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
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 107 --events 3000 --java DIR}.
 */
public final class VotersFollowLogSeed107 {
    private static final Property PROPERTY = new VotersFollowLog();
    private static int stepCount;

    private static void sequence() {
        Node node2 = new Node(2, PROPERTY, new NodeSettings(
            Uuid.fromString("e4ZyNcNg-jRPGZCU9Psjxg"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(), // staticVoters
            List.of(0, 1, 2, 3), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            1_048_576, // fetchMaxBytes
            1_048_576, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 2: starts.");
        node2.start(352_613, 10_275_993_025_737L);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 2: receives BeginEpoch(leader_epoch=2, leader_id=0, voter_id=2) from node 0.");
        node2.receive(
            4_383_569,
            1,
            new BeginQuorumEpochRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setVoterId(2)
                .setTopics(List.of(
                    new BeginQuorumEpochRequestData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new BeginQuorumEpochRequestData.PartitionData()
                                .setVoterDirectoryId(Uuid.fromString("e4ZyNcNg-jRPGZCU9Psjxg"))
                                .setLeaderEpoch(2)))))
                .setLeaderEndpoints(new BeginQuorumEpochRequestData.LeaderEndpointCollection(List.of(
                    new BeginQuorumEpochRequestData.LeaderEndpoint()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9000)).iterator())));
        // → sends FETCH to node 2; stores epoch 2, leader 0; answers BEGIN_QUORUM_EPOCH; sends
        //   FETCH to node 0; is follower of epoch 2

        step("Node 2: receives FetchReply(leader_epoch=2, leader_id=0, offsets 0 to 3) from node "
            + "0.");
        node2.receiveReply(
            4_383_569,
            0,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(-1L)
                                .setLogStartOffset(0L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(0)
                                    .setLeaderEpoch(2))
                                .setRecords(Batches.records(
                                    Batches.control(
                                        0, 1,
                                        new LeaderChangeMessage()
                                            .setLeaderId(1)
                                            .setVoters(List.of(
                                                new LeaderChangeMessage.Voter(),
                                                new LeaderChangeMessage.Voter().setVoterId(1),
                                                new LeaderChangeMessage.Voter().setVoterId(2)))
                                            .setGrantingVoters(List.of(
                                                new LeaderChangeMessage.Voter().setVoterId(1),
                                                new LeaderChangeMessage.Voter().setVoterId(2))),
                                        new KRaftVersionRecord().setKRaftVersion((short) 1),
                                        new VotersRecord()
                                            .setVoters(List.of(
                                                new VotersRecord.Voter()
                                                    .setVoterDirectoryId(Uuid.fromString("PxlxHp6ry6GUz2q6xC4coA"))
                                                    .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                                        new VotersRecord.Endpoint()
                                                            .setName("CONTROLLER")
                                                            .setHost("localhost")
                                                            .setPort(9000)).iterator()))
                                                    .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                                        .setMaxSupportedVersion((short) 1)),
                                                new VotersRecord.Voter()
                                                    .setVoterId(1)
                                                    .setVoterDirectoryId(Uuid.fromString("-Odoc7okFpaoZRfgbN8f0Q"))
                                                    .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                                        new VotersRecord.Endpoint()
                                                            .setName("CONTROLLER")
                                                            .setHost("localhost")
                                                            .setPort(9001)).iterator()))
                                                    .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                                        .setMaxSupportedVersion((short) 1)),
                                                new VotersRecord.Voter()
                                                    .setVoterId(2)
                                                    .setVoterDirectoryId(Uuid.fromString("e4ZyNcNg-jRPGZCU9Psjxg"))
                                                    .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                                                        new VotersRecord.Endpoint()
                                                            .setName("CONTROLLER")
                                                            .setHost("localhost")
                                                            .setPort(9002)).iterator()))
                                                    .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                                                        .setMaxSupportedVersion((short) 1))))),
                                    Batches.control(
                                        3, 2,
                                        new LeaderChangeMessage()
                                            .setVoters(List.of(
                                                new LeaderChangeMessage.Voter(),
                                                new LeaderChangeMessage.Voter().setVoterId(1),
                                                new LeaderChangeMessage.Voter().setVoterId(2)))
                                            .setGrantingVoters(List.of(
                                                new LeaderChangeMessage.Voter(),
                                                new LeaderChangeMessage.Voter().setVoterId(2))))))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setHost("localhost")
                        .setPort(9000)).iterator())));
        // → log to 4, epoch 2; durable to 4; acts on the voters of offset 2; sends FETCH to
        //   node 0

        step("Node 2: its clock strikes.");
        node2.tick(6_383_000);
        // → sends VOTE to node 0; sends VOTE to node 1; is prospective of epoch 2

        step("Node 2: receives VoteReply(leader_epoch=2, vote_granted=True) from node 1.");
        node2.receiveReply(
            6_383_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(2)
                                .setVoteGranted(true))))));
        // → stores epoch 3, voted for 2; sends VOTE to node 0; sends VOTE to node 1; is
        //   candidate of epoch 3

        step("Node 2: receives VoteReply(leader_epoch=3, vote_granted=True) from node 1.");
        node2.receiveReply(
            6_383_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(3)
                                .setVoteGranted(true))))));
        // → stores epoch 3, leader 2; log to 5, epoch 3; durable to 5; sends BEGIN_QUORUM_EPOCH
        //   to node 1; sends BEGIN_QUORUM_EPOCH to node 0; is leader of epoch 3

        step("Node 2: appends 1 records.");
        node2.append(6_542_430, 3, "record 0");
        // → takes the records as offsets 5 to 5

        step("Node 2: appends 1 records.");
        node2.append(6_651_560, 3, "record 0");
        // → takes the records as offsets 6 to 6; log to 7, epoch 3; durable to 7

        step("Node 2: receives BeginEpoch(leader_epoch=4, leader_id=1, voter_id=2) from node 1.");
        node2.receive(
            8_387_275,
            1,
            new BeginQuorumEpochRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setVoterId(2)
                .setTopics(List.of(
                    new BeginQuorumEpochRequestData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new BeginQuorumEpochRequestData.PartitionData()
                                .setVoterDirectoryId(Uuid.fromString("e4ZyNcNg-jRPGZCU9Psjxg"))
                                .setLeaderId(1)
                                .setLeaderEpoch(4)))))
                .setLeaderEndpoints(new BeginQuorumEpochRequestData.LeaderEndpointCollection(List.of(
                    new BeginQuorumEpochRequestData.LeaderEndpoint()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9001)).iterator())));
        // → sends BEGIN_QUORUM_EPOCH to node 1; sends BEGIN_QUORUM_EPOCH to node 0; stores
        //   epoch 4, leader 1; answers BEGIN_QUORUM_EPOCH; sends FETCH to node 1; is follower
        //   of epoch 4

        step("Node 2: receives FetchReply(leader_epoch=4, leader_id=1, diverging_epoch=3, "
            + "diverging_end_offset=5) from node 1.");
        node2.receiveReply(
            8_387_275,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(-1L)
                                .setLogStartOffset(0L)
                                .setDivergingEpoch(new FetchResponseData.EpochEndOffset()
                                    .setEpoch(3)
                                    .setEndOffset(5L))
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(1)
                                    .setLeaderEpoch(4))
                                .setRecords(Batches.records())))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(1)
                        .setHost("localhost")
                        .setPort(9001)).iterator())));
        // → cuts its log at 5; sends FETCH to node 1

        step("Node 2: its clock strikes.");
        node2.tick(12_196_000);
        // → sends VOTE to node 0; sends VOTE to node 1; is prospective of epoch 4

        step("Node 2: receives VoteReply(leader_epoch=4, vote_granted=True) from node 0.");
        node2.receiveReply(
            12_198_492,
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
        // → stores epoch 5, voted for 2; sends VOTE to node 0; sends VOTE to node 1; is
        //   candidate of epoch 5

        step("Node 2: receives VoteReply(leader_epoch=5, vote_granted=True) from node 0.");
        node2.receiveReply(
            12_205_239,
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
        // → stores epoch 5, leader 2; log to 6, epoch 5; durable to 6; sends BEGIN_QUORUM_EPOCH
        //   to node 1; sends BEGIN_QUORUM_EPOCH to node 0; is leader of epoch 5

        step("Node 2: receives Fetch(leader_epoch=5, fetch_offset=6, last_fetched_epoch=5, "
            + "high_watermark=4) from node 0.");
        node2.receive(
            12_215_905,
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
                                .setCurrentLeaderEpoch(5)
                                .setFetchOffset(6L)
                                .setLastFetchedEpoch(5)
                                .setReplicaDirectoryId(Uuid.fromString("PxlxHp6ry6GUz2q6xC4coA"))
                                .setHighWatermark(4L))))));
        // → high watermark 6; its state machine reads to 6; answers FETCH; its state machine is
        //   told to lead epoch 5

        step("Node 2: receives Fetch(leader_epoch=5, fetch_offset=6, last_fetched_epoch=5, "
            + "high_watermark=6) from node 3.");
        node2.receive(
            13_697_567,
            18,
            new FetchRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setReplicaState(new FetchRequestData.ReplicaState().setReplicaId(3))
                .setMaxWaitMs(500)
                .setMaxBytes(1048576)
                .setTopics(List.of(
                    new FetchRequestData.FetchTopic()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchRequestData.FetchPartition()
                                .setCurrentLeaderEpoch(5)
                                .setFetchOffset(6L)
                                .setLastFetchedEpoch(5)
                                .setReplicaDirectoryId(Uuid.fromString("I0fy02yvjf7_rWeVi0Jg5w"))
                                .setHighWatermark(6L))))));

        step("Node 2: receives AddVoter(voter_id=3) from the operator.");
        node2.receive(
            14_312_000,
            1,
            new AddRaftVoterRequestData()
                .setClusterId(null)
                .setTimeoutMs(5000)
                .setVoterId(3)
                .setVoterDirectoryId(Uuid.fromString("I0fy02yvjf7_rWeVi0Jg5w"))
                .setListeners(new AddRaftVoterRequestData.ListenerCollection(List.of(
                    new AddRaftVoterRequestData.Listener()
                        .setName("CONTROLLER")
                        .setHost("localhost")
                        .setPort(9003)).iterator())));
        // → sends API_VERSIONS to node 3

        step("Node 2: receives ApiVersionsReply() from node 3.");
        node2.receiveReply(
            14_314_223,
            3,
            new ApiVersionsResponseData()
                .setApiKeys(new ApiVersionsResponseData.ApiVersionCollection(List.of(
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 1)
                        .setMinVersion((short) 4)
                        .setMaxVersion((short) 18),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 18)
                        .setMaxVersion((short) 5),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 52)
                        .setMaxVersion((short) 2),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 53)
                        .setMaxVersion((short) 1),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 54)
                        .setMaxVersion((short) 1),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 55)
                        .setMaxVersion((short) 2),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 59)
                        .setMaxVersion((short) 1),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 80)
                        .setMaxVersion((short) 1),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 81),
                    new ApiVersionsResponseData.ApiVersion()
                        .setApiKey((short) 82)).iterator()))
                .setSupportedFeatures(new ApiVersionsResponseData.SupportedFeatureKeyCollection(List.of(
                    new ApiVersionsResponseData.SupportedFeatureKey()
                        .setName("kraft.version")
                        .setMaxVersion((short) 1)).iterator())));
        // → log to 7, epoch 5; answers FETCH; durable to 7
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
