package org.apache.kafka.raft;

import java.util.Arrays;
import java.util.stream.IntStream;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersionCollection;
import org.apache.kafka.common.message.ApiVersionsResponseData.SupportedFeatureKey;
import org.apache.kafka.common.message.ApiVersionsResponseData.SupportedFeatureKeyCollection;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;

/** The requests of others to one client. It cannot answer those for versions: this does. */
final class Requests {
    private static final ApiKeys[] ANSWERED = {
        ApiKeys.FETCH, ApiKeys.API_VERSIONS, ApiKeys.VOTE, ApiKeys.BEGIN_QUORUM_EPOCH,
        ApiKeys.END_QUORUM_EPOCH, ApiKeys.DESCRIBE_QUORUM, ApiKeys.FETCH_SNAPSHOT,
        ApiKeys.ADD_RAFT_VOTER, ApiKeys.REMOVE_RAFT_VOTER, ApiKeys.UPDATE_RAFT_VOTER};

    private final KafkaRaftClient<?> client;
    private final ListenerName listener;
    private final Time time;
    private final Faults faults;
    private final Events events;
    private int nextCorrelationId;

    Requests(KafkaRaftClient<?> client, ListenerName listener, Time time, Faults faults,
             Events events) {
        this.client = client;
        this.listener = listener;
        this.time = time;
        this.faults = faults;
        this.events = events;
    }

    void handle(long token, short apiKey, short version, byte[] body) {
        ApiMessage data;
        try {
            data = Bodies.readRequest(apiKey, version, body);
        } catch (Bodies.Unreadable error) {
            drop(token, "unreadable: " + error.getMessage()); // A server closes the connection.
            return;
        }
        if (apiKey == ApiKeys.API_VERSIONS.id) {
            answer(token, versions(version), version);
            return;
        }
        if (!isAnswered(apiKey)) {
            drop(token, "API " + apiKey + " is none of the quorum's");
            return;
        }
        RaftRequest.Inbound request = new RaftRequest.Inbound(
            listener, nextCorrelationId++, version, data, time.milliseconds());
        Exchange.handle(client, request, (response, error) -> {
            if (error != null) {
                drop(token, Diagnosis.of(error));
            } else {
                answer(token, response.data(), version);
            }
        });
    }

    private static boolean isAnswered(short apiKey) {
        for (ApiKeys api : ANSWERED) {
            if (api.id == apiKey) {
                return true;
            }
        }
        return false;
    }

    private void answer(long token, ApiMessage body, short version) {
        faults.beforeEffect();
        int before = events.position();
        try {
            events.answered(token, body, version);
        } catch (RuntimeException error) {
            events.cutTo(before);
            if (body.apiKey() == ApiKeys.FETCH_SNAPSHOT.id) {
                // A rejected one has no records, which must not be null. A server says this then.
                events.note("its server cannot write an answer: " + Diagnosis.of(error));
                events.answered(token, new FetchSnapshotResponseData()
                    .setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code()), version);
                return;
            }
            // The answer says something that the asked version cannot say.
            events.dropped(token, Diagnosis.of(error));
        }
    }

    private void drop(long token, String reason) {
        faults.beforeEffect();
        events.dropped(token, reason);
    }

    /** The keys of the APIs that it answers, each with its highest version. */
    static int[] maxVersions() {
        return Arrays.stream(ANSWERED)
            .flatMapToInt(api -> IntStream.of(api.id, api.latestVersion(false))).toArray();
    }

    /** What a controller's listener says that it has, of what concerns the quorum. */
    private static ApiVersionsResponseData versions(short version) {
        ApiVersionCollection apis = new ApiVersionCollection();
        for (ApiKeys api : ANSWERED) {
            api.toApiVersion(false).ifPresent(apis::add);
        }
        ApiVersionsResponseData response = new ApiVersionsResponseData()
            .setErrorCode(Errors.NONE.code()).setApiKeys(apis);
        SupportedFeatureKeyCollection features = new SupportedFeatureKeyCollection();
        features.add(new SupportedFeatureKey().setName("kraft.version")
            // Older clients do not understand a lowest level of 0: they are told 1.
            .setMinVersion((short) (version < 4 ? 1 : 0)).setMaxVersion((short) 1));
        return response.setSupportedFeatures(features);
    }
}
