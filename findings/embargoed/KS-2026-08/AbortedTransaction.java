import java.util.List;
import java.util.OptionalInt;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Records of an aborted metadata transaction are applied when others follow in the same commit.
 *
 * <p>Run it with the jars of Apache Kafka 4.4.0: {@code java -cp 'libs/*' AbortedTransaction.java}.
 * It ends with 1 where the fault is there, and with 0 where it is not.
 */
public final class AbortedTransaction {
    private static final LeaderAndEpoch LEADER = new LeaderAndEpoch(OptionalInt.of(1), 1);

    public static void main(String[] arguments) {
        ApiMessageAndVersion begin = record(new BeginTransactionRecord().setName("transaction"));
        ApiMessageAndVersion abort = record(new AbortTransactionRecord().setReason("a test"));
        boolean isThere = applies("the abort ends the commit",
            List.of(List.of(begin, topic("aborted")), List.of(abort)));
        isThere |= applies("a record follows in the batch of the abort",
            List.of(List.of(begin, topic("aborted")), List.of(abort, topic("after"))));
        isThere |= applies("a record follows in a batch of its own",
            List.of(List.of(begin, topic("aborted")), List.of(abort), List.of(topic("after"))));
        System.exit(isThere ? 1 : 0);
    }

    /** Let a broker load the batches of one commit; return whether it has the aborted topic. */
    private static boolean applies(String what, List<List<ApiMessageAndVersion>> batches) {
        MetadataImage[] published = {MetadataImage.EMPTY};
        MetadataBatchLoader loader = new MetadataBatchLoader(
            new LogContext(), Time.SYSTEM,
            (message, cause) -> new RuntimeException(message, cause),
            (delta, image, manifest) -> published[0] = image,
            (type, name) -> true);
        loader.resetToImage(MetadataImage.EMPTY);
        long offset = 0;
        for (List<ApiMessageAndVersion> batch : batches) {
            loader.loadBatch(Batch.data(offset, 1, 0, 100, batch), LEADER);
            offset += batch.size();
        }
        loader.maybeFlushBatches(LEADER, true);
        TreeSet<String> topics = new TreeSet<>(published[0].topics().topicsByName().keySet());
        System.out.println(what + ": topics " + topics);
        return topics.contains("aborted");
    }

    private static ApiMessageAndVersion topic(String name) {
        return record(new TopicRecord().setName(name).setTopicId(Uuid.randomUuid()));
    }

    private static ApiMessageAndVersion record(ApiMessage message) {
        return new ApiMessageAndVersion(message, (short) 0);
    }
}
