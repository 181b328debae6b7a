package org.apache.kafka.raft;


/**
 * No message and no fault of a disk lets a node end with an error of its own. Here it is not so,
 * with Apache Kafka 4.3.1.
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
public final class FetchSnapshotWithoutTopic {
    private static final Property PROPERTY = new NoFatalError();
    private static int stepCount;

    private static void sequence() {
        Node node0 = new Node(0, PROPERTY, new NodeSettings(
            Uuid.fromString("AQEBAQEBAQEBAQEBAQEBAQ"), // directoryId
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
            25_000, // appendLingerUs
            1_048_576, // fetchMaxBytes
            1_048_576, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 0: starts.");
        node0.start(0, 1);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 0: receives a FetchSnapshot that names no topic.");
        node0.receive(1_000, 1, new FetchSnapshotRequestData());
        // → ends with an error of its own: java.lang.IndexOutOfBoundsException: Index 0 out of
        //   bounds for length 0 at KafkaRaftClient.handleFetchSnapshotRequest:1932 at
        //   KafkaRaftClient.handleRequest:2816 at KafkaRaftClient.handleInboundMessage:2839 at
        //   KafkaRaftClient.poll:3686
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
