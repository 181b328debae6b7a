package org.apache.kafka.raft;

import java.io.IOException;

/**
 * What the simulator lets go wrong with one node: its power, and its disk.
 *
 * <p>Everything that happens on the disk or that others see asks here before it happens. When the
 * power has gone, nothing happens any more, also where Kafka's futures have swallowed the error
 * that said so.
 */
final class Faults {
    static final int NONE = 0;
    static final int ONE_FAILS = 1;
    static final int FULL = 2;
    static final int POWER_GOES = 3;

    /** Ends what the client is doing. An error, for Kafka catches exceptions in more places. */
    static final class PowerLost extends Error {
        private static final long serialVersionUID = 1;

        PowerLost() {
            super("the power is gone", null, false, false);
        }
    }

    /** What the file system says of an operation that it did not do. */
    static final class DiskError extends IOException {
        private static final long serialVersionUID = 1;
        final boolean isFull;

        DiskError(boolean isFull) {
            super(isFull ? "No space left on device" : "Input/output error");
            this.isFull = isFull;
        }
    }

    private final Events events;
    private Runnable lastWords = () -> { };
    private int effectsLeft = -1; // Negative: the power stays.
    private boolean isPowerOff;
    private int eventsEnd; // Where the frame ended when the power went.
    private int diskFault = NONE;
    private int operationsLeft;

    Faults(Events events) {
        this.events = events;
    }

    /** What tells of the node as it is when the power goes, before that. */
    void setLastWords(Runnable words) {
        lastWords = words;
    }

    void cutPowerAfter(int effects) {
        effectsLeft = effects;
    }

    void failDisk(int fault, int operations) {
        diskFault = fault;
        operationsLeft = operations;
    }

    void restorePower() {
        isPowerOff = false;
        effectsLeft = -1;
    }

    boolean isPowerOff() {
        return isPowerOff;
    }

    /** Takes back the events that were written after the power had gone. */
    void forgetLaterEvents() {
        events.cutTo(eventsEnd);
    }

    /** Must be called before each effect. */
    void beforeEffect() {
        if (!isPowerOff && effectsLeft >= 0 && effectsLeft-- == 0) {
            loseThePower();
        }
        requirePower();
    }

    /** Must be called before bytes are written to a file. */
    void beforeWrite() throws DiskError {
        beforeOperation();
        if (diskFault == FULL) {
            throw new DiskError(true);
        }
    }

    /** Must be called before a sync, a rename, a deletion or a truncation. */
    void beforeOperation() throws DiskError {
        requirePower();
        if (diskFault != ONE_FAILS && diskFault != POWER_GOES || --operationsLeft > 0) {
            return;
        }
        boolean goes = diskFault == POWER_GOES;
        diskFault = NONE;
        if (goes) {
            loseThePower();
            requirePower();
        }
        throw new DiskError(false);
    }

    private void loseThePower() {
        lastWords.run();
        isPowerOff = true;
        eventsEnd = events.position();
    }

    private void requirePower() {
        if (isPowerOff) {
            throw new PowerLost();
        }
    }
}
