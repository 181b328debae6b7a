// Drives sarama.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"kraftspec/driving"
)

// sarama has time-outs for each attempt, and for no more.
const retries = 3

type driven struct {
	bootstrap []string
	config    *sarama.Config
	producer  sarama.SyncProducer
}

func connect(_ context.Context, a driving.Ask) (driving.Driven, error) {
	const backoff = 20 * time.Millisecond
	attempt := a.Timeout() / (retries + 1)
	config := sarama.NewConfig()
	config.ClientID = "suite"
	config.Version = sarama.MaxVersion // It asks the broker for less where the broker has less.
	config.Net.DialTimeout, config.Net.ReadTimeout, config.Net.WriteTimeout = attempt, attempt, attempt
	config.Metadata.Timeout = a.Timeout()
	config.Metadata.Retry.Max, config.Metadata.Retry.Backoff = retries, backoff
	config.Admin.Timeout = attempt
	config.Admin.Retry.Max, config.Admin.Retry.Backoff = retries, backoff
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = retries, backoff
	config.Producer.Timeout = attempt
	config.Producer.RequiredAcks = sarama.RequiredAcks(a.RequiredAcks())
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Consumer.Return.Errors = true
	config.Consumer.Retry.Backoff = backoff
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	if a.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	if user, ok := a.Security["user"]; ok {
		config.Net.SASL.Enable = true
		config.Net.SASL.User, config.Net.SASL.Password = user, a.Security["password"]
	}
	trust, err := a.TLS()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = trust != nil, trust
	producer, err := sarama.NewSyncProducer([]string{a.Bootstrap}, config)
	return &driven{[]string{a.Bootstrap}, config, producer}, err
}

func (d *driven) Produce(_ context.Context, a driving.Ask) error {
	var messages []*sarama.ProducerMessage
	for _, value := range a.Values {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: a.Topic, Partition: a.Partition, Value: sarama.StringEncoder(value),
		})
	}
	err := d.producer.SendMessages(messages)
	if failed, ok := err.(sarama.ProducerErrors); ok {
		return failed[0] // The text of them all has but their number.
	}
	return err
}

func (d *driven) Consume(ctx context.Context, a driving.Ask) ([]string, error) {
	consumer, err := sarama.NewConsumer(d.bootstrap, d.config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(a.Topic, a.Partition, a.Offset)
	if err != nil {
		return nil, err
	}
	defer partition.AsyncClose()
	var values []string
	var last error // It tries again after those it reports, unless it ends the channel.
	for len(values) < a.Count {
		select {
		case message, ok := <-partition.Messages():
			if !ok {
				return nil, fmt.Errorf("it ended after %d records: %w", len(values), last)
			}
			values = append(values, string(message.Value))
		case failed := <-partition.Errors():
			if failed != nil {
				last = failed
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%d records came in time; at last: %v", len(values), last)
		}
	}
	return values, nil
}

func (d *driven) Admin(_ context.Context, a driving.Ask) error {
	admin, err := sarama.NewClusterAdmin(d.bootstrap, d.config)
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.CreateTopic(a.CreateTopic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
}

func (d *driven) Close() error {
	return d.producer.Close()
}

func main() {
	driving.Drive("sarama", "github.com/IBM/sarama", nil, connect)
}
