package org.apache.kafka.raft;

/** This release did something else before the property could break. */
final class NotFollowed extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotFollowed(String why) {
        super(why, null, false, false);
    }
}
