package org.apache.kafka.raft;

import java.util.Random;
import org.apache.kafka.common.utils.Time;

/**
 * Random numbers that depend on the time and not on how many were drawn before: an implementation
 * that draws more often draws the same. There are a thousand steps below a bound, so that what is
 * drawn of whole seconds is whole milliseconds.
 */
final class TimedDraws extends Random {
    private static final long serialVersionUID = 1;
    private static final long STEPS = 1000;

    private final long seed;
    private final transient Time time;

    TimedDraws(long seed, Time time) {
        this.seed = seed;
        this.time = time;
    }

    @Override public int nextInt(int bound) {
        return (int) (step(seed, time.milliseconds()) * bound / STEPS);
    }

    // Of 3.9.2, 4.0.1 and 4.0.2. Without it a draw would come from the clock of the machine.
    @Override public int nextInt(int origin, int bound) {
        return origin + nextInt(bound - origin);
    }

    private static long step(long seed, long timeMs) {
        long mixed = seed + timeMs * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ mixed >>> 30) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94D049BB133111EBL;
        return Long.remainderUnsigned(mixed ^ mixed >>> 31, STEPS);
    }
}
