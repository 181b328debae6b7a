package org.apache.kafka.raft;

import java.util.HashMap;
import java.util.Map;

/** The highest version of each API that a node may send, to each peer. The last word counts. */
final class VersionCaps {
    static final int ALL_PEERS = -1;

    private record Key(int peer, short apiKey) { }

    private final Map<Key, Short> caps = new HashMap<>();

    void set(int peer, short apiKey, short maxVersion) {
        if (peer == ALL_PEERS) {
            caps.keySet().removeIf(key -> key.apiKey == apiKey);
        }
        caps.put(new Key(peer, apiKey), maxVersion);
    }

    short maxVersion(int peer, short apiKey) {
        if (caps.isEmpty()) {
            return Short.MAX_VALUE;
        }
        Short cap = caps.get(new Key(peer, apiKey));
        return cap != null ? cap
            : caps.getOrDefault(new Key(ALL_PEERS, apiKey), Short.MAX_VALUE);
    }
}
