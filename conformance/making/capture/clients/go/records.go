package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
	kgo.ZstdCompression(),
}

func (w *work) record(partition int32, key, value []byte) *kgo.Record {
	return &kgo.Record{
		Topic: w.name("records"), Partition: partition, Key: key, Value: value,
		Headers: []kgo.RecordHeader{{Key: "header", Value: []byte("one")}, {Key: "empty"}},
	}
}

func (w *work) produce() {
	acks := []kgo.Acks{kgo.AllISRAcks(), kgo.LeaderAck(), kgo.NoAck()}
	for number, codec := range codecs {
		options := []kgo.Opt{
			kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		}
		if wanted := acks[number%len(acks)]; number%len(acks) != 0 {
			options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(wanted))
		}
		client := w.client(options...)
		for partition := int32(0); partition < 3; partition++ {
			results := client.ProduceSync(w.ctx,
				w.record(partition, []byte("key"), []byte("value")),
				w.record(partition, nil, []byte{}),
				w.record(partition, []byte{}, nil))
			w.must("produce", results.FirstErr())
		}
		client.Close()
	}
}

// poll takes what comes within a time, and returns how many records that were.
func (w *work) poll(client *kgo.Client, wait time.Duration) int {
	ctx, cancel := context.WithTimeout(w.ctx, wait)
	defer cancel()
	fetches := client.PollFetches(ctx)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			w.note("fetch", failed.Err)
		}
	}
	return fetches.NumRecords()
}

func (w *work) consume() {
	topic := w.name("records")
	for _, isolation := range []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()} {
		client := w.client(kgo.FetchIsolationLevel(isolation), kgo.Rack("rack-1"),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {
				0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().At(1),
				2: kgo.NewOffset().AfterMilli(1),
			}}))
		seen := 0
		for seen < 30 && w.ctx.Err() == nil {
			seen += w.poll(client, time.Second)
		}
		w.must("consume", w.ctx.Err())
		client.Close()
	}
	beyond := w.client(kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			topic: {0: kgo.NewOffset().At(1_000_000)}}))
	w.poll(beyond, 300*time.Millisecond)
	beyond.Close()
}

func (w *work) groups(admin *kadm.Client) {
	topic := w.name("records")
	balancers := []kgo.GroupBalancer{kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()}
	for number, balancer := range balancers {
		group := w.name("group-" + balancer.ProtocolName())
		options := []kgo.Opt{
			kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer),
			kgo.HeartbeatInterval(200 * time.Millisecond), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		}
		if number == 1 {
			options = append(options, kgo.InstanceID("instance-1"))
		}
		first := w.client(options...)
		for w.poll(first, time.Second) == 0 && w.ctx.Err() == nil {
		}
		w.must("consume in a group", w.ctx.Err())
		w.note("commit", first.CommitUncommittedOffsets(w.ctx))
		if number == 0 {
			second := w.client(options...)
			w.poll(second, 700*time.Millisecond)
			w.poll(first, 200*time.Millisecond)
			second.Close()
		}
		w.administer(admin, group)
		w.note("leave", first.LeaveGroupContext(w.ctx))
		first.Close()
	}
	_, err := admin.DeleteGroups(w.ctx, w.name("group-range"), "go-absent")
	w.note("delete groups", err)
}

func (w *work) administer(admin *kadm.Client, group string) {
	topic := w.name("records")
	_, err := admin.ListGroups(w.ctx)
	w.note("list groups", err)
	_, err = admin.ListGroupsByType(w.ctx, []string{"classic"}, "Stable")
	w.note("list groups by type", err)
	_, err = admin.DescribeGroups(w.ctx, group, "go-absent")
	w.note("describe groups", err)
	_, err = admin.DescribeConsumerGroups(w.ctx, group)
	w.note("describe consumer groups", err)
	_, err = admin.FetchOffsets(w.ctx, group)
	w.note("fetch offsets", err)
	admin.FetchManyOffsets(w.ctx, group, "go-absent")
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 1, Metadata: "by hand"})
	_, err = admin.CommitOffsets(w.ctx, w.name("empty-group"), offsets)
	w.note("commit offsets", err)
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	_, err = admin.DeleteOffsets(w.ctx, w.name("empty-group"), set)
	w.note("delete offsets", err)
	_, err = admin.LeaveGroup(w.ctx, kadm.LeaveGroup(group).InstanceIDs("instance-9").Reason("gone"))
	w.note("remove a member", err)
	admin.FindGroupCoordinators(w.ctx, group, "go-other")
}

func (w *work) transactions(admin *kadm.Client) {
	id := w.name("transaction")
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(w.brokers...), kgo.ClientID(w.name("session")),
		kgo.MaxVersions(w.versions()), kgo.TransactionalID(id),
		kgo.ConsumerGroup(w.name("transacted")), kgo.ConsumeTopics(w.name("records")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if !w.must("start a session", err) {
		return
	}
	defer session.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		fetches := session.PollFetches(w.ctx)
		w.note("fetch in a session", fetches.Err())
		if !w.must("begin", session.Begin()) {
			return
		}
		session.Produce(w.ctx, w.record(0, []byte("key"), []byte("in a transaction")), nil)
		session.Produce(w.ctx, w.record(1, nil, []byte("in a transaction")), nil)
		if end == kgo.TryCommit {
			_, err = admin.ListTransactions(w.ctx, nil, []string{"Ongoing"})
			w.note("list transactions", err)
			_, err = admin.DescribeTransactions(w.ctx, id, "go-absent")
			w.note("describe transactions", err)
		}
		_, err = session.End(w.ctx, end)
		w.note("end", err)
	}
	set := kadm.TopicsSet{}
	set.Add(w.name("records"), 0, 1)
	_, err = admin.DescribeProducers(w.ctx, set)
	w.note("describe producers", err)
	admin.FindTxnCoordinators(w.ctx, id)
}
