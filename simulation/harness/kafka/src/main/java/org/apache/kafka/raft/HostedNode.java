package org.apache.kafka.raft;

import org.apache.kafka.server.common.OffsetAndEpoch;

/** A node of a run: its settings and its disk, and its life while it is up. */
final class HostedNode {
    private static final int DOWN = 0;
    private static final int UP = 1;
    private static final int LEFT = 2;
    private static final int POWER_WENT = 3;
    private static final int FATAL = 4;
    private static final int DISK_FAILED = 5;
    private static final int DISK_FULL = 6;
    private static final long NEVER_US = Long.MAX_VALUE;

    /** Something that the simulator lets a live node do. */
    interface Step {
        void run(Life life);
    }

    final VersionCaps caps = new VersionCaps();
    final Faults faults;
    private final int id;
    private final NodeSettings settings;
    private final Events events;
    private final Disk disk = new Disk();
    private Life life;
    private int status = DOWN;

    HostedNode(int id, NodeSettings settings, Events events) {
        this.id = id;
        this.settings = settings;
        this.events = events;
        this.faults = new Faults(events);
    }

    boolean isUp() {
        return status == UP;
    }

    void install(OffsetAndEpoch id, byte[] content) {
        disk.checkpoints.put(id, new Disk.Checkpoint(content, true));
    }

    void restore(long startOffset, byte[] data, ElectionState election) {
        disk.restore(startOffset, data, election);
    }

    boolean rot(long baseOffset, int position, int mask) {
        return disk.log.rot(baseOffset, position, mask);
    }

    void readLog() {
        events.log(disk.log.startOffset(), disk.log.batches());
    }

    /** Starts it; false where its power is off or it is up. */
    boolean start(long nowUs, long seed) {
        if (status == UP || status == POWER_WENT) {
            return false;
        }
        status = UP;
        faults.setLastWords(() -> { });
        guard(() -> {
            life = new Life(id, settings, disk, caps, faults, events, nowUs, seed);
            life.run(faults);
        });
        return true;
    }

    /** Lets a live node do something; one that is not up does nothing. */
    void step(long nowUs, Step step) {
        if (status == UP) {
            guard(() -> {
                life.time.set(nowUs);
                step.run(life);
                life.run(faults);
            });
        }
    }

    /** Ends its process. Without power there is none, and it stays so. */
    void kill() {
        if (status != POWER_WENT) {
            stop(DOWN);
            faults.cutPowerAfter(-1);
        }
    }

    void losePower(int batches, int tornBytes, boolean keepsFiles) {
        stop(DOWN);
        faults.restorePower();
        disk.losePower(batches, tornBytes, keepsFiles);
    }

    private void stop(int status) {
        this.status = status;
        life = null;
    }

    private void guard(Runnable action) {
        try {
            action.run();
            if (!life.client.isRunning()) {
                stop(LEFT);
            }
        } catch (OutOfMemoryError error) {
            throw error; // Of the process, not of the node.
        } catch (Throwable error) {
            stop(statusAfter(error));
        }
        if (faults.isPowerOff()) {
            faults.forgetLaterEvents();
            stop(POWER_WENT);
        }
    }

    private int statusAfter(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof Faults.DiskError diskError) {
                events.note("its disk stopped it: " + Diagnosis.of(error));
                return diskError.isFull ? DISK_FULL : DISK_FAILED;
            }
        }
        events.fatal(Diagnosis.of(error));
        return FATAL;
    }

    /** Ends the answer to a command. */
    void writeState() {
        if (status == UP) {
            events.writeState(life.state(status));
            return;
        }
        ElectionState election = disk.election == null ? null : disk.election.state();
        events.writeState(new Events.State(
            status, 0, election == null ? 0 : election.epoch(),
            election == null ? -1 : election.leaderIdOrSentinel(),
            election == null || !election.hasVoted() ? null : election.votedKey(), -1,
            disk.log.startOffset(), disk.log.endOffset(), disk.log.durableEndOffset(),
            NEVER_US, false, 0));
    }
}
