package kraftspec.capture;

import static kraftspec.capture.Workload.attempt;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Transactions committed, aborted, fenced and ended by an administrator. */
final class TransactionWork {
    private static final String TOPIC = "java-transactions";

    private TransactionWork() {}

    private static KafkaProducer<byte[], byte[]> producer(
            Workload.Cluster cluster, String id) {
        Properties properties = ProduceWork.producer(cluster, "transactions-" + id);
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", "30000");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        producer.initTransactions();
        return producer;
    }

    static void run(Workload.Cluster cluster) throws Exception {
        try (Admin admin = Admin.create(cluster.properties("transactions-admin"))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) -1))).all().get();
            commitAndAbort(cluster);
            fence(cluster, admin);
            administer(cluster, admin);
        }
    }

    @SuppressWarnings("removal") // The id alone is what a producer without a consumer has.
    private static void commitAndAbort(Workload.Cluster cluster) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(cluster, "java-tx-1")) {
            TopicPartition source = new TopicPartition(ProduceWork.TOPIC, 0);
            for (boolean commit : new boolean[] {true, false, true}) {
                producer.beginTransaction();
                for (int partition = 0; partition < 2; partition++) {
                    producer.send(new ProducerRecord<>(
                        TOPIC, partition, ProduceWork.bytes("key"), ProduceWork.bytes("value")));
                }
                producer.flush();
                producer.sendOffsetsToTransaction(
                    Map.of(source, new OffsetAndMetadata(1, "read so far")),
                    new ConsumerGroupMetadata("java-tx-group"));
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    private static void fence(Workload.Cluster cluster, Admin admin) throws Exception {
        try (KafkaProducer<byte[], byte[]> old = producer(cluster, "java-tx-fenced")) {
            old.beginTransaction();
            old.send(new ProducerRecord<>(TOPIC, 0, null, ProduceWork.bytes("lost"))).get();
            producer(cluster, "java-tx-fenced").close();
            try {
                old.send(new ProducerRecord<>(TOPIC, 0, null, ProduceWork.bytes("late")));
                old.commitTransaction();
                throw new IllegalStateException("a fenced producer has committed");
            } catch (KafkaException expected) {
                // It is fenced: the answer is what this is about.
            }
        }
        attempt(() -> admin.fenceProducers(List.of("java-tx-fenced", "java-tx-new")).all());
    }

    private static void administer(Workload.Cluster cluster, Admin admin) throws Exception {
        TopicPartition partition = new TopicPartition(TOPIC, 1);
        try (KafkaProducer<byte[], byte[]> open = producer(cluster, "java-tx-open")) {
            open.beginTransaction();
            open.send(new ProducerRecord<>(TOPIC, 1, null, ProduceWork.bytes("open"))).get();
            admin.listTransactions().all().get();
            admin.listTransactions(new ListTransactionsOptions()
                .filterStates(Set.of(TransactionState.ONGOING)).filterOnDuration(1)
                .filterProducerIds(Set.of(0L, 1L))).all().get();
            attempt(() -> admin.describeTransactions(
                List.of("java-tx-1", "java-tx-open", "java-tx-absent")).all());
            ProducerState state = admin.describeProducers(List.of(partition))
                .partitionResult(partition).get().activeProducers().stream()
                .filter(one -> one.currentTransactionStartOffset().isPresent())
                .findFirst().orElseThrow();
            attempt(() -> admin.abortTransaction(new AbortTransactionSpec(partition,
                state.producerId(), (short) state.producerEpoch(),
                state.coordinatorEpoch().orElse(0))).all());
        } catch (KafkaException closing) {
            // Its transaction was ended from outside, which close reports.
        }
        try (KafkaProducer<byte[], byte[]> stuck = producer(cluster, "java-tx-stuck")) {
            stuck.beginTransaction();
            stuck.send(new ProducerRecord<>(TOPIC, 0, null, ProduceWork.bytes("stuck"))).get();
            attempt(() -> admin.forceTerminateTransaction("java-tx-stuck").result());
        } catch (KafkaException closing) {
            // As above.
        }
    }
}
