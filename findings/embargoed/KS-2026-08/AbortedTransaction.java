import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;

/**
 * Records of an aborted metadata transaction are applied when others follow in the same commit.
 *
 * <p>Run it with the jars of Apache Kafka 4.0 or later:
 * {@code java -cp 'libs/*' AbortedTransaction.java}. It ends with 1 where the fault is there,
 * and with 0 where it is not.
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
        MetadataBatchLoader loader = loader((delta, image, manifest) -> published[0] = image);
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

    /** Make a loader. The parameters of its constructor are not the same in each release. */
    private static MetadataBatchLoader loader(MetadataBatchLoader.MetadataUpdater updater) {
        FaultHandler faults = (message, cause) -> new RuntimeException(message, cause);
        Constructor<?> constructor = MetadataBatchLoader.class.getConstructors()[0];
        List<Object> known = List.of(Time.SYSTEM, faults, updater);
        Object[] values = Arrays.stream(constructor.getParameterTypes())
            .map(type -> known.stream().filter(type::isInstance).findFirst()
                .orElseGet(() -> byDefault(type)))
            .toArray();
        try {
            return (MetadataBatchLoader) constructor.newInstance(values);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** LogContext has another package since 4.4.0; 4.1.2 has no SupportedConfigChecker yet. */
    private static Object byDefault(Class<?> type) {
        if (type.isInterface()) {
            return Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (proxy, method, values) -> true);
        }
        try {
            return type.getConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static ApiMessageAndVersion topic(String name) {
        return record(new TopicRecord().setName(name).setTopicId(Uuid.randomUuid()));
    }

    private static ApiMessageAndVersion record(ApiMessage message) {
        return new ApiMessageAndVersion(message, (short) 0);
    }
}
