package kraftspec.peer;

import java.util.function.LongSupplier;

/** What one call does, how many records it is about, and the CRC-32C that proves its result. */
record Task(LongSupplier call, int recordCount, long check) {
}
