package org.apache.kafka.raft;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;

/** The requests of one client to its peers, and what becomes of them. */
final class Peers extends Exchange.Channel {
    private record Pending(RaftRequest.Outbound request,
                           CompletableFuture<RaftResponse.Inbound> promise) {
        void fail(Errors error) {
            ApiKeys api = ApiKeys.forId(request.data().apiKey());
            promise.complete(new RaftResponse.Inbound(request.correlationId(),
                RaftUtil.errorResponse(api, error), request.destination()));
        }
    }

    private final ListenerName listener;
    private final int portBase;
    private final VersionCaps caps;
    private final Faults faults;
    private final Events events;
    private final Map<Long, Pending> pending = new HashMap<>();
    private int nextCorrelationId;

    Peers(ListenerName listener, int portBase, VersionCaps caps, Faults faults, Events events) {
        this.listener = listener;
        this.portBase = portBase;
        this.caps = caps;
        this.faults = faults;
        this.events = events;
    }

    @Override public int newCorrelationId() {
        return nextCorrelationId++;
    }

    @Override public ListenerName listenerName() {
        return listener;
    }

    @Override void send(RaftRequest.Outbound request,
                        CompletableFuture<RaftResponse.Inbound> promise) {
        Pending sending = new Pending(request, promise);
        AbstractRequest.Builder<?> builder = KafkaNetworkChannel.buildRequest(request.data());
        int port = request.destination().port();
        short apiKey = builder.apiKey().id;
        short version = (short) Math.min(builder.latestAllowedVersion(),
            caps.maxVersion(port - portBase, apiKey));
        pending.put((long) request.correlationId(), sending);
        faults.beforeEffect();
        if (version < builder.oldestAllowedVersion()) {
            events.unsendable(request.correlationId(), port, apiKey);
            return;
        }
        int before = events.position();
        try {
            events.sent(request.correlationId(), port, apiKey, version,
                builder.build(version).data());
        } catch (UnsupportedVersionException error) {
            // It says something that this version cannot say.
            events.cutTo(before);
            events.unsendable(request.correlationId(), port, apiKey);
        }
    }

    void reply(long correlation, short apiKey, short version, byte[] body) {
        Pending answered = pending.remove(correlation);
        if (answered == null) {
            events.note("a reply to request " + correlation + ", which nobody waits for");
            return;
        }
        try {
            answered.promise.complete(new RaftResponse.Inbound((int) correlation,
                Bodies.readResponse(apiKey, version, body), answered.request.destination()));
        } catch (Bodies.Unreadable error) {
            // The network client closes such a connection.
            events.note("a reply to request " + correlation + " is unreadable: "
                + error.getMessage());
            answered.fail(Errors.BROKER_NOT_AVAILABLE);
        }
    }

    void fail(long correlation, boolean isUnsupported) {
        Pending failed = pending.remove(correlation);
        if (failed != null) {
            failed.fail(isUnsupported ? Errors.UNSUPPORTED_VERSION : Errors.BROKER_NOT_AVAILABLE);
        }
    }
}
