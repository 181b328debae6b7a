package org.apache.kafka.raft;


/**
 * What the only voter counts as committed is on its disk. Here it is not so, with Apache Kafka
 * 4.4.0.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory: see the end of this file. Other nodes are played by the
 * sequence.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 6 --events 3000 --java DIR}.
 */
public final class MajorityHoldsHighWatermarkSeed6 {
    private static final Property PROPERTY = new MajorityHoldsHighWatermark();
    private static int stepCount;

    private static void sequence() {
        Node node0 = new Node(0, PROPERTY, new NodeSettings(
            Uuid.fromString("yxhV_pLl3-jSa5SWFKA1aQ"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            true, // canBecomeVoter
            false, // autoJoin
            List.of(0), // staticVoters
            List.of(), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            1_048_576, // fetchMaxBytes
            50, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 0: starts.");
        node0.start(225, 132_364_821_059_535L);
        // → recovers a log of 0; stores epoch 0; stores epoch 1, voted for 0; stores epoch 1,
        //   leader 0; acts on the voters of its start; log to 1, epoch 1; high watermark 1;
        //   durable to 1; its state machine reads to 1; its state machine is told to lead epoch
        //   1; is leader of epoch 1
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
