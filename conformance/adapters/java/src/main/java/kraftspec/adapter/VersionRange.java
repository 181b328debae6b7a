package kraftspec.adapter;

import com.fasterxml.jackson.databind.JsonNode;

/** A closed range of versions of the schema language; empty when lowest exceeds highest. */
record VersionRange(int lowest, int highest) {
    static final VersionRange NONE = new VersionRange(0, -1);

    /** Reads "N", "A-B", "A+" or "none"; a missing node is none. */
    static VersionRange parse(JsonNode node) {
        String text = node.asText("").trim();
        if (text.isEmpty() || text.equals("none")) {
            return NONE;
        }
        if (text.endsWith("+")) {
            return new VersionRange(
                Integer.parseInt(text.substring(0, text.length() - 1)), Short.MAX_VALUE);
        }
        int dash = text.indexOf('-');
        if (dash < 0) {
            int only = Integer.parseInt(text);
            return new VersionRange(only, only);
        }
        return new VersionRange(
            Integer.parseInt(text.substring(0, dash)), Integer.parseInt(text.substring(dash + 1)));
    }

    boolean contains(int version) {
        return lowest <= version && version <= highest;
    }

    VersionRange and(VersionRange other) {
        return new VersionRange(Math.max(lowest, other.lowest), Math.min(highest, other.highest));
    }

    boolean empty() {
        return lowest > highest;
    }

    /** As hello gives it: "A-B" (also where A is B) or "none". */
    @Override
    public String toString() {
        return empty() ? "none" : lowest + "-" + highest;
    }
}
