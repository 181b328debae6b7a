// Drives kafka-go.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"

	"kraftspec/driving"
)

// The writer has time-outs for each attempt, and for no more: closing waits for all of them.
// MetadataTTL is also the time-out of each request for metadata, so it must be longer than a busy
// machine takes. An attempt waits for that long, or it would use the metadata that has failed.
const (
	attempts    = 4
	backoff     = 20 * time.Millisecond
	metadataTTL = time.Second
)

type driven struct {
	bootstrap string
	dialer    *kafka.Dialer
	transport *kafka.Transport
	writer    *kafka.Writer
	partition int32
}

func connect(_ context.Context, a driving.Ask) (driving.Driven, error) {
	trust, err := a.TLS()
	if err != nil {
		return nil, err
	}
	var mechanism sasl.Mechanism
	if user, ok := a.Security["user"]; ok {
		mechanism = plain.Mechanism{Username: user, Password: a.Security["password"]}
	}
	d := &driven{
		bootstrap: a.Bootstrap,
		dialer:    &kafka.Dialer{ClientID: "suite", Timeout: a.Timeout(), TLS: trust, SASLMechanism: mechanism},
		transport: &kafka.Transport{
			ClientID: "suite", DialTimeout: a.Timeout(), MetadataTTL: metadataTTL, TLS: trust, SASL: mechanism,
		},
	}
	d.writer = &kafka.Writer{
		Addr:            kafka.TCP(a.Bootstrap),
		Balancer:        kafka.BalancerFunc(func(kafka.Message, ...int) int { return int(d.partition) }),
		MaxAttempts:     attempts,
		WriteBackoffMin: metadataTTL,
		WriteBackoffMax: metadataTTL,
		BatchTimeout:    time.Millisecond,
		ReadTimeout:     a.Timeout() / attempts,
		WriteTimeout:    a.Timeout() / attempts,
		RequiredAcks:    kafka.RequiredAcks(a.RequiredAcks()),
		Transport:       d.transport,
	}
	return d, nil
}

func (d *driven) Produce(ctx context.Context, a driving.Ask) error {
	d.partition = a.Partition
	var messages []kafka.Message
	for _, value := range a.Values {
		messages = append(messages, kafka.Message{Topic: a.Topic, Value: []byte(value)})
	}
	return d.writer.WriteMessages(ctx, messages...)
}

func (d *driven) Consume(ctx context.Context, a driving.Ask) ([]string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:               []string{d.bootstrap},
		Topic:                 a.Topic,
		Partition:             int(a.Partition),
		Dialer:                d.dialer,
		MaxWait:               100 * time.Millisecond,
		ReadBackoffMin:        backoff,
		ReadBackoffMax:        backoff,
		OffsetOutOfRangeError: true,
	})
	defer reader.Close()
	if err := reader.SetOffset(a.Offset); err != nil {
		return nil, err
	}
	var values []string
	for len(values) < a.Count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(values), err)
		}
		values = append(values, string(message.Value))
	}
	return values, nil
}

func (d *driven) Admin(ctx context.Context, a driving.Ask) error {
	client := &kafka.Client{Addr: kafka.TCP(d.bootstrap), Timeout: a.Timeout(), Transport: d.transport}
	topic := kafka.TopicConfig{Topic: a.CreateTopic, NumPartitions: 1, ReplicationFactor: 1}
	response, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return err
	}
	return response.Errors[a.CreateTopic]
}

func (d *driven) Close() error {
	err := d.writer.Close()
	d.transport.CloseIdleConnections()
	return err
}

func main() {
	driving.Drive("kafka-go", "github.com/segmentio/kafka-go", []string{"idempotent"}, connect)
}
