package org.apache.kafka.raft;


/**
 * Who may vote and fetches from an offset has all before it on its disk: so it acknowledges.
 * Here it is not so, with Apache Kafka 4.4.0.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory: see the end of this file. Other nodes are played by the
 * sequence.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 109 --events 3000 --java DIR}.
 */
public final class SyncedBeforeFetchSeed109 {
    private static final Property PROPERTY = new SyncedBeforeFetch();
    private static int stepCount;

    private static void sequence() {
        Node node0 = new Node(0, PROPERTY, new NodeSettings(
            Uuid.fromString("R5LBAjqgyM11k06NczYR2g"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(0, 1, 2, 3, 4, 5, 6), // staticVoters
            List.of(), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            500, // fetchMaxBytes
            1_048_576, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 0: starts.");
        node0.start(441_766, 118_216_557_402_211L);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 5; is unattached of epoch 0

        step("Node 0: its clock strikes.");
        node0.tick(7_219_000);
        // → sends VOTE to node 1; sends VOTE to node 6; sends VOTE to node 5; sends VOTE to
        //   node 4; sends VOTE to node 3; sends VOTE to node 2; is prospective of epoch 0

        step("Node 0: cannot send.");
        node0.failRequest(7_219_000, 2, ApiKeys.VOTE, true);
        // → stores epoch 1, voted for 0; sends VOTE to node 1; sends VOTE to node 6; sends VOTE
        //   to node 5; sends VOTE to node 4; sends VOTE to node 3; sends VOTE to node 2; is
        //   candidate of epoch 1

        step("Node 0: receives VoteReply(leader_epoch=1, vote_granted=True) from node 6.");
        node0.receiveReply(
            7_219_000,
            6,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(1)
                                .setVoteGranted(true))))));

        step("Node 0: receives VoteReply(leader_epoch=1, vote_granted=True) from node 1.");
        node0.receiveReply(
            7_219_000,
            1,
            new VoteResponseData()
                .setTopics(List.of(
                    new VoteResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new VoteResponseData.PartitionData()
                                .setLeaderId(-1)
                                .setLeaderEpoch(1)
                                .setVoteGranted(true))))));

        step("Node 0: receives VoteReply(leader_epoch=1, vote_granted=True) from node 2.");
        node0.receiveReply(
            7_219_000,
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
        // → stores epoch 1, leader 0; log to 1, epoch 1; durable to 1; sends BEGIN_QUORUM_EPOCH
        //   to node 4; sends BEGIN_QUORUM_EPOCH to node 2; sends BEGIN_QUORUM_EPOCH to node 5;
        //   sends BEGIN_QUORUM_EPOCH to node 3; sends BEGIN_QUORUM_EPOCH to node 1; sends
        //   BEGIN_QUORUM_EPOCH to node 6; is leader of epoch 1

        step("Node 0: appends 1 records.");
        node0.append(7_245_608, 1, "record 0");
        // → takes the records as offsets 1 to 1

        step("Node 0: appends 1 records.");
        node0.failDisk(Faults.ONE_FAILS, 8);
        node0.append(8_093_422, 1, "record 0");
        // → takes the records as offsets 2 to 2; log to 3, epoch 1; durable to 3

        step("Node 0: appends 1 records.");
        node0.append(8_096_545, 1, "record 0");
        // → takes the records as offsets 3 to 3

        step("Node 0: its clock strikes.");
        node0.tick(8_121_000);
        // → log to 4, epoch 1; durable to 4

        step("Node 0: appends 1 records.");
        node0.append(8_749_733, 1, "record 0");
        // → takes the records as offsets 4 to 4

        step("Node 0: appends 1 records.");
        node0.append(9_124_126, 1, "record 0");
        // → takes the records as offsets 5 to 5; log to 6, epoch 1; durable to 6

        step("Node 0: appends 1 records.");
        node0.append(9_140_557, 1, "record 0");
        // → takes the records as offsets 6 to 6

        step("Node 0: its clock strikes.");
        node0.tick(9_165_000);
        // → log to 7, epoch 1; its disk stopped it:
        //   org.apache.kafka.common.errors.KafkaStorageException: cannot flush the log, because
        //   of org.apache.kafka.raft.SyncedBeforeFetchSeed109$Faults$DiskError: Input/output
        //   error

        step("Node 0: starts.");
        node0.start(11_986_382, 138_601_617_863_311L);
        // → recovers a log of 7; stores epoch 1, leader 0; acts on the voters of its start;
        //   sends END_QUORUM_EPOCH to node 5; sends END_QUORUM_EPOCH to node 6; sends
        //   END_QUORUM_EPOCH to node 3; sends END_QUORUM_EPOCH to node 4; sends
        //   END_QUORUM_EPOCH to node 1; sends END_QUORUM_EPOCH to node 2; is resigned of epoch
        //   1

        step("Node 0: receives EndEpochReply(leader_epoch=2, error=74) from node 4.");
        node0.receiveReply(
            11_990_426,
            4,
            new EndQuorumEpochResponseData()
                .setTopics(List.of(
                    new EndQuorumEpochResponseData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new EndQuorumEpochResponseData.PartitionData()
                                .setErrorCode(Errors.FENCED_LEADER_EPOCH.code())
                                .setLeaderId(-1)
                                .setLeaderEpoch(2))))));
        // → stores epoch 2; sends FETCH to node 2; is unattached of epoch 2
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
