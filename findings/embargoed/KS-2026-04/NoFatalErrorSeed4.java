package org.apache.kafka.raft;


/**
 * No message and no fault of a disk lets a node end with an error of its own. Here it is not so,
 * with Apache Kafka 4.4.0.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory: see the end of this file. Other nodes are played by the
 * sequence.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 4 --events 2500 --java DIR}.
 */
public final class NoFatalErrorSeed4 {
    private static final Property PROPERTY = new NoFatalError();
    private static int stepCount;

    private static void sequence() {
        Node node3 = new Node(3, PROPERTY, new NodeSettings(
            Uuid.fromString("xIWiC0W29IWLlY2GpM0JUw"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(), // staticVoters
            List.of(0, 1, 2, 3, 4, 5, 6), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            1_048_576, // fetchMaxBytes
            300, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 3: starts.");
        node3.start(9_183_128, 101_131_846_272_562L);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 5; is unattached of epoch 0

        step("Node 3: receives FetchReply(leader_epoch=1, leader_id=3, error=74) from node 5.");
        node3.receiveReply(
            9_238_785,
            5,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setErrorCode(Errors.FENCED_LEADER_EPOCH.code())
                                .setHighWatermark(-1L)
                                .setLogStartOffset(0L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(3)
                                    .setLeaderEpoch(1))
                                .setRecords(Batches.records())))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(3)
                        .setHost("localhost")
                        .setPort(9003)).iterator())));
        // → ends with an error of its own: java.lang.IllegalStateException: Received request or
        //   response with leader OptionalInt[3] and epoch 1 which is inconsistent with current
        //   leader OptionalInt.empty and epoch 0 at KafkaRaftClient.maybeTransition:2701 at
        //   KafkaRaftClient.maybeHandleCommonResponse:2657 at
        //   KafkaRaftClient.handleFetchResponse:1729 at KafkaRaftClient.handleResponse:2738
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
