// Drives franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"kraftspec/driving"
)

type driven struct {
	options []kgo.Opt
	client  *kgo.Client
}

func connect(ctx context.Context, a driving.Ask) (driving.Driven, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(a.Bootstrap),
		kgo.ClientID("suite"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(a.Timeout()),
		kgo.RetryTimeout(a.Timeout()),
		kgo.RequestTimeoutOverhead(a.Timeout()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
	}
	if !a.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	switch a.RequiredAcks() {
	case 0:
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	case 1:
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if user, ok := a.Security["user"]; ok {
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: a.Security["password"]}.AsMechanism()))
	}
	trust, err := a.TLS()
	if err != nil {
		return nil, err
	}
	if trust != nil {
		options = append(options, kgo.DialTLSConfig(trust))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return &driven{options, client}, nil
}

func (d *driven) Produce(ctx context.Context, a driving.Ask) error {
	var records []*kgo.Record
	for _, value := range a.Values {
		records = append(records, &kgo.Record{Topic: a.Topic, Partition: a.Partition, Value: []byte(value)})
	}
	return d.client.ProduceSync(ctx, records...).FirstErr()
}

func (d *driven) Admin(ctx context.Context, a driving.Ask) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = a.CreateTopic, 1, 1
	request.Topics = append(request.Topics, topic)
	request.TimeoutMillis = int32(a.TimeoutMs)
	response, err := request.RequestWith(ctx, d.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func (d *driven) Close() error {
	d.client.Close()
	return nil
}

func (d *driven) Consume(ctx context.Context, a driving.Ask) ([]string, error) {
	from := map[string]map[int32]kgo.Offset{a.Topic: {a.Partition: kgo.NewOffset().At(a.Offset)}}
	options := append([]kgo.Opt{kgo.ConsumePartitions(from), kgo.FetchMaxWait(100 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NoResetOffset())}, d.options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var values []string
	for len(values) < a.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("%d records came: %w", len(values), err)
		}
		var first error
		fetches.EachError(func(_ string, _ int32, err error) { first = errors.Join(first, err) })
		if first != nil {
			return nil, first
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values[:a.Count], nil
}

func main() {
	driving.Drive("franz-go", "github.com/twmb/franz-go", nil, connect)
}
