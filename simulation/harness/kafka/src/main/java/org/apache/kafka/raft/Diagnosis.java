package org.apache.kafka.raft;

import java.util.regex.Pattern;

/** Says in one line what an error is and where it happened, in the same words in each process. */
final class Diagnosis {
    private static final int FRAMES_MAX = 4;
    // Of objects without a text of their own, Java prints where they are in memory.
    private static final Pattern PLACE_IN_MEMORY = Pattern.compile("(/0x[0-9a-f]+)?@[0-9a-f]+");

    private Diagnosis() { }

    static String of(Throwable error) {
        StringBuilder text = new StringBuilder(textOf(error));
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append(", because of ").append(textOf(cause));
        }
        int shown = 0;
        for (StackTraceElement frame : error.getStackTrace()) {
            String name = frame.getClassName();
            if (name.startsWith("org.apache.kafka.") && shown++ < FRAMES_MAX) {
                text.append(" at ").append(name.substring(name.lastIndexOf('.') + 1)).append('.')
                    .append(frame.getMethodName()).append(':').append(frame.getLineNumber());
            }
        }
        return text.toString();
    }

    private static String textOf(Throwable error) {
        return PLACE_IN_MEMORY.matcher(error.toString()).replaceAll("");
    }
}
