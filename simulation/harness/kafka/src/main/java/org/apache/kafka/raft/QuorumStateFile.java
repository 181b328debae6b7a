package org.apache.kafka.raft;

import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Optional;
import org.apache.kafka.server.common.KRaftVersion;

/** The file quorum-state on a {@link Disk}. */
final class QuorumStateFile implements QuorumStateStore {
    private final Disk disk;
    private final Faults faults;
    private final Events events;

    QuorumStateFile(Disk disk, Faults faults, Events events) {
        this.disk = disk;
        this.faults = faults;
        this.events = events;
    }

    @Override public Optional<ElectionState> readElectionState() {
        return Optional.ofNullable(disk.election).map(Disk.Election::state);
    }

    @Override public void writeElectionState(ElectionState state, KRaftVersion kraftVersion) {
        faults.beforeEffect();
        Disk.Election election = new Disk.Election(
            state.toQuorumStateData(kraftVersion.quorumStateVersion()));
        try {
            RenamedFile.write(faults, isNamed -> {
                disk.election = election;
                if (isNamed) {
                    disk.durableElection = election;
                }
            });
        } catch (Faults.DiskError error) {
            throw new UncheckedIOException("cannot write quorum-state", error);
        }
        events.persisted(election.state());
    }

    @Override public Path path() {
        return Path.of("quorum-state");
    }

    @Override public void clear() {
        disk.election = null;
        disk.durableElection = null;
    }
}
