package org.apache.kafka.raft;


/**
 * A node leaves another one alone for the retry backoff if the response carried nothing new. Here it
 * is not so, with Apache Kafka 4.4.0.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory: see the end of this file. Other nodes are played by the
 * sequence.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by hand.
 */
public final class VotesAgainAtOnce {
    private static final Property PROPERTY = new NoSpin();
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

        step("Node 0: node 1, which was formatted again, answers: that is not its directory id.");
        node0.receiveReply(
            5_001_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setErrorCode(Errors.INVALID_VOTER_KEY.code())
                                .setLeaderId(-1))))));
        // → sends VOTE to node 1

        step("Node 0: node 1, which was formatted again, answers: that is not its directory id.");
        node0.receiveReply(
            5_002_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setErrorCode(Errors.INVALID_VOTER_KEY.code())
                                .setLeaderId(-1))))));
        // → sends VOTE to node 1

        step("Node 0: node 1, which was formatted again, answers: that is not its directory id.");
        node0.receiveReply(
            5_003_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setErrorCode(Errors.INVALID_VOTER_KEY.code())
                                .setLeaderId(-1))))));
        // → sends VOTE to node 1

        step("Node 0: node 1, which was formatted again, answers: that is not its directory id.");
        node0.receiveReply(
            5_004_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setErrorCode(Errors.INVALID_VOTER_KEY.code())
                                .setLeaderId(-1))))));
        // → sends VOTE to node 1

        step("Node 0: node 1, which was formatted again, answers: that is not its directory id.");
        node0.receiveReply(
            5_005_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setErrorCode(Errors.INVALID_VOTER_KEY.code())
                                .setLeaderId(-1))))));
        // → sends VOTE to node 1

        step("Node 0: node 1, which was formatted again, answers: that is not its directory id.");
        node0.receiveReply(
            5_006_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setErrorCode(Errors.INVALID_VOTER_KEY.code())
                                .setLeaderId(-1))))));
        // → sends VOTE to node 1
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
