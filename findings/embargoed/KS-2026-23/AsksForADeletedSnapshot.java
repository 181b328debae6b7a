package org.apache.kafka.raft;


/**
 * A replica gives up a snapshot that its leader does not have any more. Here it is not so, with
 * Apache Kafka 4.4.0.
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
public final class AsksForADeletedSnapshot {
    private static final Property PROPERTY = new Property() {
        private ApiMessage last;
        private int count; // Of the same FETCH_SNAPSHOT; there may be a FETCH between two.

        @Override void sent(Node node, ApiMessage request) {
            if (request.apiKey() == ApiKeys.FETCH_SNAPSHOT.id) {
                count = request.equals(last) ? count + 1 : 1;
                last = request;
                if (count > 5) {
                    throw new Broken("node " + node.id + " sent the same FETCH_SNAPSHOT " + count
                        + " times, and its leader rejected each");
                }
            }
        }
    };
    private static int stepCount;

    private static void sequence() {
        Node node4 = new Node(4, PROPERTY, new NodeSettings(
            Uuid.fromString("GAcujHzkLIIHQceo5LBs5g"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            false, // canBecomeVoter
            false, // autoJoin
            List.of(1, 2), // staticVoters
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

        step("Node 4: starts.");
        node4.start(0, 1);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 4: node 1 answers that node 2 leads epoch 1.");
        node4.receiveReply(
            10_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code())
                                .setHighWatermark(-1L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(1))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → stores epoch 1, leader 2; sends FETCH to node 2; is follower of epoch 1

        step("Node 4: the log of node 2 begins with the snapshot 22-1.");
        node4.receiveReply(
            20_000,
            2,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setHighWatermark(30L)
                                .setLogStartOffset(22L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(1))
                                .setSnapshotId(new FetchResponseData.SnapshotId()
                                    .setEndOffset(22L)
                                    .setEpoch(1))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → sends FETCH_SNAPSHOT to node 2

        step("Node 4: node 2 has deleted the snapshot; its server cannot write that answer.");
        node4.receiveReply(
            30_000,
            2,
            new FetchSnapshotResponseData()
                .setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code()));
        // → sends FETCH to node 1

        step("Node 4: node 1 answers that node 2 leads epoch 1.");
        node4.receiveReply(
            60_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code())
                                .setHighWatermark(-1L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(1))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → sends FETCH_SNAPSHOT to node 2

        step("Node 4: node 2 has deleted the snapshot; its server cannot write that answer.");
        node4.receiveReply(
            90_000,
            2,
            new FetchSnapshotResponseData()
                .setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code()));
        // → sends FETCH to node 1

        step("Node 4: node 1 answers that node 2 leads epoch 1.");
        node4.receiveReply(
            120_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code())
                                .setHighWatermark(-1L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(1))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → sends FETCH_SNAPSHOT to node 2

        step("Node 4: node 2 has deleted the snapshot; its server cannot write that answer.");
        node4.receiveReply(
            150_000,
            2,
            new FetchSnapshotResponseData()
                .setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code()));
        // → sends FETCH to node 1

        step("Node 4: node 1 answers that node 2 leads epoch 1.");
        node4.receiveReply(
            180_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code())
                                .setHighWatermark(-1L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(1))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → sends FETCH_SNAPSHOT to node 2

        step("Node 4: node 2 has deleted the snapshot; its server cannot write that answer.");
        node4.receiveReply(
            210_000,
            2,
            new FetchSnapshotResponseData()
                .setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code()));
        // → sends FETCH to node 1

        step("Node 4: node 1 answers that node 2 leads epoch 1.");
        node4.receiveReply(
            240_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code())
                                .setHighWatermark(-1L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(1))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → sends FETCH_SNAPSHOT to node 2

        step("Node 4: node 2 has deleted the snapshot; its server cannot write that answer.");
        node4.receiveReply(
            270_000,
            2,
            new FetchSnapshotResponseData()
                .setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code()));
        // → sends FETCH to node 1

        step("Node 4: node 1 answers that node 2 leads epoch 1.");
        node4.receiveReply(
            300_000,
            1,
            new FetchResponseData()
                .setResponses(List.of(
                    new FetchResponseData.FetchableTopicResponse()
                        .setTopicId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
                        .setPartitions(List.of(
                            new FetchResponseData.PartitionData()
                                .setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code())
                                .setHighWatermark(-1L)
                                .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch()
                                    .setLeaderId(2)
                                    .setLeaderEpoch(1))))))
                .setNodeEndpoints(new FetchResponseData.NodeEndpointCollection(List.of(
                    new FetchResponseData.NodeEndpoint()
                        .setNodeId(2)
                        .setHost("localhost")
                        .setPort(9002)).iterator())));
        // → sends FETCH_SNAPSHOT to node 2
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
