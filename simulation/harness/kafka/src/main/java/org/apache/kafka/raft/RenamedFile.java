package org.apache.kafka.raft;

import java.util.function.Consumer;

/**
 * A file that Kafka writes under another name, syncs, renames, and whose directory it syncs then.
 * So it does with checkpoints and with quorum-state.
 */
final class RenamedFile {
    private RenamedFile() { }

    /**
     * Carries out the four operations, each of which may fail.
     *
     * @param hasName puts the file where it belongs; told whether a power loss leaves it there
     */
    static void write(Faults faults, Consumer<Boolean> hasName) throws Faults.DiskError {
        faults.beforeWrite();
        faults.beforeOperation();
        try {
            faults.beforeOperation();
        } catch (Faults.DiskError error) {
            faults.beforeOperation(); // Kafka tries another kind of rename then.
        }
        hasName.accept(false);
        faults.beforeOperation();
        hasName.accept(true);
    }
}
