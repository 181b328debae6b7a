package org.apache.kafka.raft;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;

/** Who may vote and fetches from an offset has all before it on its disk: so it acknowledges. */
final class SyncedBeforeFetch extends Property {
    @Override void sent(Node node, ApiMessage request) {
        if (request instanceof FetchRequestData fetch && node.settings.canBecomeVoter()) {
            long offset = fetch.topics().get(0).partitions().get(0).fetchOffset();
            if (offset > node.durableEnd()) {
                throw new Broken("node " + node.id + " fetches from offset " + offset
                    + ", and its log is on its disk up to " + node.durableEnd());
            }
        }
    }
}

/** What the only voter counts as committed is on its disk. */
final class MajorityHoldsHighWatermark extends Property {
    @Override void highWatermark(Node node, long offset) {
        Life life = node.host.life;
        if (life != null && life.client.quorum().isLeader() && offset > node.durableEnd()
                && life.controlRecords.lastVoterSet().voterIds().size() == 1) {
            throw new Broken("the only voter, node " + node.id + ", counts all before offset "
                + offset + " as committed, and its log is on its disk up to "
                + node.durableEnd());
        }
    }
}

/** A node acts on the last voter set in its log, committed or not. */
final class VotersFollowLog extends Property {
    @Override void stepped(Node node, Life life) {
        VoterSet due = lastStored(node, life);
        VoterSet actual = life.controlRecords.lastVoterSet();
        if (!actual.equals(due)) {
            throw new Broken("node " + node.id + " acts on the voters " + actual.voterIds()
                + ", and the last in its log are " + due.voterIds()
                + "\n  acts on " + actual + "\n  stored  " + due);
        }
    }

    private static VoterSet lastStored(Node node, Life life) {
        byte[] log = Batches.joined(life.disk.log.batches().stream()
            .map(StoredBatch::bytes).toArray(byte[][]::new));
        Optional<VoterSet> stored = Optional.ofNullable(Batches.lastVoters(log));
        if (stored.isEmpty() && !life.disk.checkpoints.isEmpty()) {
            stored = Optional.ofNullable(
                Batches.lastVoters(life.disk.checkpoints.lastEntry().getValue().content()));
        }
        return stored.orElseGet(() -> VoterSet.fromInetSocketAddresses(
            Life.LISTENER, node.settings.staticVoterAddresses()));
    }
}

/** A leader whose removal is committed does not lead any more. */
final class ReconfigurationFinishes extends Property {
    @Override void stepped(Node node, Life life) {
        VoterSet voters = life.controlRecords.lastVoterSet();
        long offset = life.controlRecords.lastVoterSetOffset().orElse(-1);
        if (life.client.quorum().isLeader() && !voters.voterIds().contains(node.id)
                && offset >= 0 && offset < node.state().highWatermark()) {
            throw new Broken("node " + node.id + " leads epoch " + node.state().epoch()
                + ", and the voters " + voters.voterIds() + " of offset " + offset
                + " are committed: the high watermark is " + node.state().highWatermark());
        }
    }
}

/** A node campaigns for as long as it does not know that the voter set without it is committed. */
final class RemovedWhenCommitted extends Property {
    private static final int ELECTION_TIMEOUTS = 10;
    private Life waiting; // The life in which it asks nobody for a vote,
    private long sinceMs; // and since when.

    @Override void sent(Node node, ApiMessage request) {
        if (request instanceof VoteRequestData) {
            waiting = null;
        }
    }

    @Override void stepped(Node node, Life life) {
        VoterSet voters = life.controlRecords.lastVoterSet();
        long offset = life.controlRecords.lastVoterSetOffset().orElse(-1);
        long nowMs = life.time.milliseconds();
        if (!life.client.quorum().isUnattached() || voters.voterIds().contains(node.id)
                || offset < node.state().highWatermark()) {
            waiting = null;
        } else if (waiting != life) {
            waiting = life;
            sinceMs = nowMs;
        } else if ((nowMs - sinceMs) * 1000
                >= ELECTION_TIMEOUTS * node.settings.electionTimeoutUs()) {
            throw new Broken("node " + node.id + " has heard of no leader for "
                + (nowMs - sinceMs) + " ms, and asks nobody for a vote: it does not know that "
                + "the voters " + voters.voterIds() + " of offset " + offset + " are committed");
        }
    }
}

/** An epoch has one leader. */
final class SingleLeader extends Property {
    private final Map<Integer, Integer> leaders = new HashMap<>(); // By epoch, as first stored.

    @Override void stepped(Node node, Life life) {
        QuorumState quorum = life.client.quorum();
        if (quorum.leaderId().isPresent()) {
            int leader = quorum.leaderId().getAsInt();
            int first = leaders.computeIfAbsent(quorum.epoch(), epoch -> leader);
            if (first != leader) {
                throw new Broken("node " + leader + " leads epoch " + quorum.epoch()
                    + ", and so does node " + first);
            }
        }
    }
}

/** No message and no fault of a disk lets a node end with an error of its own. */
final class NoFatalError extends Property {
    @Override void fatal(Node node, String text) {
        throw new Broken("node " + node.id + ": " + text);
    }
}

/** A node leaves another one alone for the retry backoff if the response carried nothing new. */
final class NoSpin extends Property {
    private static final int REQUESTS_MAX = 5; // In a row, each within the backoff of the last.

    /** The same request, so often in a row. */
    private record Repeated(ApiMessage request, int count, long lastMs) { }

    private final Map<Integer, Repeated> sent = new HashMap<>(); // By node.

    @Override void sent(Node node, ApiMessage request) {
        long nowMs = node.host.life.time.milliseconds();
        Repeated before = sent.get(node.id);
        boolean isSame = before != null && before.request.equals(request)
            && (nowMs - before.lastMs) * 1000 < node.settings.retryBackoffUs();
        int count = isSame ? before.count + 1 : 1;
        sent.put(node.id, new Repeated(request, count, nowMs));
        if (count > REQUESTS_MAX) {
            throw new Broken("node " + node.id + " sent the same "
                + ApiKeys.forId(request.apiKey()) + " " + count + " times, each less than "
                + node.settings.retryBackoffUs() / 1000 + " ms after the one before");
        }
    }
}

/** A node that has nothing to do waits: its clock does not wake it again and again in vain. */
final class IdleNodeWaits extends Property {
    private static final int WAKES_MAX = 20; // In a row, each at most a millisecond after another.
    private static final int MILLISECOND_US = 1000;
    private final Map<Integer, Integer> wakes = new HashMap<>(); // By node.

    @Override void sent(Node node, ApiMessage request) {
        wakes.remove(node.id);
    }

    @Override void received(Node node) {
        wakes.remove(node.id);
    }

    @Override void woken(Node node, long nowUs) {
        if (node.state().deadlineUs() - nowUs > MILLISECOND_US) {
            wakes.remove(node.id);
        } else if (wakes.merge(node.id, 1, Integer::sum) > WAKES_MAX) {
            throw new Broken("node " + node.id + " was woken " + wakes.get(node.id)
                + " times in a row with nothing to do, and would not wait");
        }
    }
}
