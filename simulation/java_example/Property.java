package org.apache.kafka.raft;

import org.apache.kafka.common.protocol.ApiMessage;

/** What has to hold. A property looks at what it needs, in the order in which things happened. */
abstract class Property {
    /** It does not. */
    static final class Broken extends RuntimeException {
        private static final long serialVersionUID = 1;

        Broken(String what) {
            super(what, null, false, false);
        }
    }

    void sent(Node node, ApiMessage request) { }

    void highWatermark(Node node, long offset) { }

    void fatal(Node node, String text) { }

    /** A request has reached it. */
    void received(Node node) { }

    /** At the end of a step that is the time for which its thread waited. */
    void woken(Node node, long nowUs) { }

    /** At the end of each step of a node that is up. */
    void stepped(Node node, Life life) { }
}
