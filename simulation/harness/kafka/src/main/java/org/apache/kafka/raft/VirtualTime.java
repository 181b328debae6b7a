package org.apache.kafka.raft;

import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;

/** A clock that the simulator sets. Nothing may wait on it: there is one thread for all. */
final class VirtualTime implements Time {
    private long nowUs;

    void set(long nowUs) {
        this.nowUs = nowUs;
    }

    @Override public long milliseconds() {
        return Math.floorDiv(nowUs, 1000L);
    }

    @Override public long nanoseconds() {
        return nowUs * 1000;
    }

    @Override public void sleep(long ms) {
        throw new IllegalStateException("the client sleeps");
    }

    @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new IllegalStateException("the client waits");
    }
}
