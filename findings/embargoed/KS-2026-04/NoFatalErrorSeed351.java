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
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 351 --events 3000 --java DIR}.
 */
public final class NoFatalErrorSeed351 {
    private static final Property PROPERTY = new NoFatalError();
    private static int stepCount;

    private static void sequence() {
        Node node2 = new Node(2, PROPERTY, new NodeSettings(
            Uuid.fromString("_6yiWrn0w2FLsGhBnomytg"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(), // staticVoters
            List.of(0, 1, 2, 3, 4), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            1, // fetchMaxBytes
            50, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 2: starts.");
        node2.start(330_948, 83_255_457_152_845L);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 0; is unattached of epoch 0

        step("Node 2: receives EndEpoch(leader_epoch=2, leader_id=3) from node 3.");
        node2.receive(
            11_271_585,
            1,
            new EndQuorumEpochRequestData()
                .setClusterId("c2ltdWxhdGlvbnMtY2x1cw")
                .setTopics(List.of(
                    new EndQuorumEpochRequestData.TopicData()
                        .setTopicName("__cluster_metadata")
                        .setPartitions(List.of(
                            new EndQuorumEpochRequestData.PartitionData()
                                .setLeaderId(3)
                                .setLeaderEpoch(2)
                                .setPreferredCandidates(List.of(
                                    new EndQuorumEpochRequestData.ReplicaInfo()
                                        .setCandidateId(1)
                                        .setCandidateDirectoryId(Uuid.fromString("UnUx6bp50_VFi_hpUbBasA")),
                                    new EndQuorumEpochRequestData.ReplicaInfo()
                                        .setCandidateId(2)
                                        .setCandidateDirectoryId(Uuid.fromString("_6yiWrn0w2FLsGhBnomytg")))))))));
        // → sends FETCH to node 2; ends with an error of its own:
        //   java.lang.IllegalArgumentException: Unknown leader endpoints
        //   (Endpoints(endpoints={})) after request or response with leader (3) and the voters
        //   VoterSet(voters={}) at KafkaRaftClient.transitionToFollower:789 at
        //   KafkaRaftClient.maybeTransition:2704 at
        //   KafkaRaftClient.handleEndQuorumEpochRequest:1290 at
        //   KafkaRaftClient.handleRequest:2819
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
