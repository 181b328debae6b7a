package kraftspec.capture;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType.ListenerType;
import org.apache.kafka.common.message.BeginQuorumEpochRequestData;
import org.apache.kafka.common.message.DescribeQuorumRequestData;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.message.UpdateRaftVoterRequestData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.RequestHeader;

/**
 * Every request in every version that a node offers, written by Kafka's own classes: nearly empty,
 * so that it changes nothing, and answered all the same. Clients of today send only the newest.
 */
final class PlainWork {
    private static final String TOPIC = "__cluster_metadata";
    private static final int TIMEOUT_MS = 3000;
    /** Those that would register a node, never be answered, or wait for a connection. */
    private static final Set<ApiKeys> LEFT_OUT =
        Set.of(ApiKeys.PRODUCE, ApiKeys.CONTROLLER_REGISTRATION, ApiKeys.ADD_RAFT_VOTER);

    private PlainWork() {}

    static void run(Workload.Cluster cluster) throws Exception {
        int answered = 0;
        for (ApiKeys key : ApiKeys.values()) {
            if (LEFT_OUT.contains(key) || !key.hasValidVersion()) {
                continue;
            }
            for (short version = key.oldestVersion(); version <= key.latestVersion(); version++) {
                if (key.inScope(ListenerType.BROKER)) {
                    answered += send(cluster.brokers(), key, version);
                }
                if (key.inScope(ListenerType.CONTROLLER)) {
                    answered += send(cluster.controllers(), key, version);
                }
            }
        }
        if (answered < 200) {
            throw new IllegalStateException("only " + answered + " requests were answered");
        }
    }

    private static int send(String addresses, ApiKeys key, short version) throws IOException {
        ByteBuffer frame;
        try {
            frame = frame(key, version);
        } catch (UnsupportedVersionException lacking) {
            return 0; // Its default value has no bytes in this version.
        }
        String[] address = addresses.split(",")[0].split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            socket.setSoTimeout(TIMEOUT_MS);
            socket.getOutputStream().write(frame.array(), 0, frame.limit());
            DataInputStream answers = new DataInputStream(socket.getInputStream());
            answers.readNBytes(answers.readInt());
            return 1;
        } catch (IOException hungUp) {
            return 0; // Some a node does not answer but by hanging up.
        }
    }

    private static ByteBuffer frame(ApiKeys key, short version) {
        RequestHeader header = new RequestHeader(key, version, "plain", version);
        ApiMessage message = message(key);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        MessageSizeAccumulator size = new MessageSizeAccumulator();
        header.data().addSize(size, cache, header.headerVersion());
        message.addSize(size, cache, version);
        ByteBuffer frame = ByteBuffer.allocate(4 + size.totalSize());
        frame.putInt(size.totalSize());
        ByteBufferAccessor writer = new ByteBufferAccessor(frame);
        header.data().write(writer, cache, header.headerVersion());
        message.write(writer, cache, version);
        frame.flip();
        return frame;
    }

    /** The default value; the quorum's own requests are about its partition and a past epoch. */
    private static ApiMessage message(ApiKeys key) {
        return switch (key) {
            case VOTE -> new VoteRequestData().setTopics(List.of(
                new VoteRequestData.TopicData().setTopicName(TOPIC).setPartitions(List.of(
                    new VoteRequestData.PartitionData().setReplicaId(3002).setReplicaEpoch(0)))));
            case BEGIN_QUORUM_EPOCH -> new BeginQuorumEpochRequestData().setTopics(List.of(
                new BeginQuorumEpochRequestData.TopicData().setTopicName(TOPIC).setPartitions(
                    List.of(new BeginQuorumEpochRequestData.PartitionData().setLeaderId(3002)))));
            case END_QUORUM_EPOCH -> new EndQuorumEpochRequestData().setTopics(List.of(
                new EndQuorumEpochRequestData.TopicData().setTopicName(TOPIC).setPartitions(
                    List.of(new EndQuorumEpochRequestData.PartitionData().setLeaderId(3002)))));
            case DESCRIBE_QUORUM -> new DescribeQuorumRequestData().setTopics(List.of(
                new DescribeQuorumRequestData.TopicData().setTopicName(TOPIC).setPartitions(
                    List.of(new DescribeQuorumRequestData.PartitionData()))));
            case FETCH_SNAPSHOT -> new FetchSnapshotRequestData().setTopics(List.of(
                new FetchSnapshotRequestData.TopicSnapshot().setName(TOPIC).setPartitions(
                    List.of(new FetchSnapshotRequestData.PartitionSnapshot()
                        .setCurrentLeaderEpoch(-1)))));
            case UPDATE_RAFT_VOTER -> new UpdateRaftVoterRequestData().setVoterId(3001);
            default -> key.messageType.newRequest();
        };
    }
}
