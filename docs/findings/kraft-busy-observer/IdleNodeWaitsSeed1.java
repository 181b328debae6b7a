package org.apache.kafka.raft;


/**
 * A node that has nothing to do waits: its clock does not wake it again and again in vain. Here
 * it is not so, with Apache Kafka 4.4.0.
 *
 * <p>It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock and
 * network are stand-ins in memory: see the end of this file. Other nodes are played by the
 * sequence.
 *
 * <p>Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends with 1
 * where the fault is there, 0 where it is not, and 3 where the sequence cannot be followed.
 * {@code -Dkafka.version} names another release of the same interfaces.
 *
 * <p>Written by {@code kraftspec simulate --core kafka:4.4.0 --seed 1 --events 2000 --java DIR}.
 */
public final class IdleNodeWaitsSeed1 {
    private static final Property PROPERTY = new IdleNodeWaits();
    private static int stepCount;

    private static void sequence() {
        Node node4 = new Node(4, PROPERTY, new NodeSettings(
            Uuid.fromString("GAcujHzkLIIHQceo5LBs5g"), // directoryId
            "c2ltdWxhdGlvbnMtY2x1cw", // clusterId
            9_000, // portBase
            false, // canBecomeVoter
            false, // autoJoin
            List.of(), // staticVoters
            List.of(0, 1, 2), // bootstrapServers
            1_000_000, // electionTimeoutUs
            2_000_000, // fetchTimeoutUs
            1_000_000, // electionBackoffMaxUs
            2_000_000, // requestTimeoutUs
            20_000, // retryBackoffUs
            25_000, // appendLingerUs
            1, // fetchMaxBytes
            300, // fetchSnapshotMaxBytes
            0)); // retentionBytes

        step("Node 4: starts.");
        node4.start(381_140, 136_495_836_206_557L);
        // → recovers a log of 0; stores epoch 0; acts on the voters of its start; sends FETCH
        //   to node 1; is unattached of epoch 0

        step("Node 4: its clock strikes.");
        node4.tick(1_569_000);
        // → it polls again and again without waiting; here a millisecond passes

        step("Node 4: its clock strikes.");
        node4.tick(1_570_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_571_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_572_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_573_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_574_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_575_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_576_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_577_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_578_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_579_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_580_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_581_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_582_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_583_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_584_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_585_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_586_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_587_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_588_000);

        step("Node 4: its clock strikes.");
        node4.tick(1_589_000);
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
