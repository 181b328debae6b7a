// Drives franz-go: a line of JSON for each verb, and one back.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const module = "github.com/twmb/franz-go"

type ask struct {
	Verb        string            `json:"verb"`
	TimeoutMs   int               `json:"timeout_ms"`
	Bootstrap   string            `json:"bootstrap"`
	Idempotent  bool              `json:"idempotent"`
	Acks        *int              `json:"acks"`
	Security    map[string]string `json:"security"`
	Topic       string            `json:"topic"`
	Partition   int32             `json:"partition"`
	Values      []string          `json:"values"`
	Offset      int64             `json:"offset"`
	Count       int               `json:"count"`
	CreateTopic string            `json:"create_topic"`
}

type driven struct {
	options []kgo.Opt
	client  *kgo.Client
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version[1:]
		}
	}
	return "unknown"
}

func connect(a ask) (*driven, error) {
	timeout := time.Duration(a.TimeoutMs) * time.Millisecond
	options := []kgo.Opt{
		kgo.SeedBrokers(a.Bootstrap),
		kgo.ClientID("suite"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(timeout),
		kgo.RetryTimeout(timeout),
		kgo.RequestTimeoutOverhead(timeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
	}
	if !a.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if a.Acks != nil && *a.Acks == 0 {
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	} else if a.Acks != nil && *a.Acks == 1 {
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if user, ok := a.Security["user"]; ok {
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: a.Security["password"]}.AsMechanism()))
	}
	if ca, ok := a.Security["ca"]; ok {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	d := &driven{options, client}
	return d, client.Ping(ctx)
}

func (d *driven) do(a ask) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.TimeoutMs)*time.Millisecond)
	defer cancel()
	switch a.Verb {
	case "produce":
		var records []*kgo.Record
		for _, value := range a.Values {
			records = append(records, &kgo.Record{Topic: a.Topic, Partition: a.Partition, Value: []byte(value)})
		}
		return nil, d.client.ProduceSync(ctx, records...).FirstErr()
	case "consume":
		return d.consume(ctx, a)
	case "admin":
		request := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = a.CreateTopic, 1, 1
		request.Topics = append(request.Topics, topic)
		request.TimeoutMillis = int32(a.TimeoutMs)
		response, err := request.RequestWith(ctx, d.client)
		if err != nil {
			return nil, err
		}
		return nil, kerr.ErrorForCode(response.Topics[0].ErrorCode)
	case "close":
		d.client.Close()
		return nil, nil
	}
	return nil, fmt.Errorf("there is no verb %q", a.Verb)
}

func (d *driven) consume(ctx context.Context, a ask) ([]string, error) {
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
	out := json.NewEncoder(os.Stdout)
	out.Encode(map[string]any{"protocol": 1, "client": "franz-go", "version": version(), "language": "go"})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	var d *driven
	for in.Scan() {
		var a ask
		err := json.Unmarshal(in.Bytes(), &a)
		values := []string{}
		if err == nil && a.Verb == "connect" {
			d, err = connect(a)
		} else if err == nil {
			var got []string
			got, err = d.do(a)
			values = append(values, got...)
		}
		if err != nil {
			out.Encode(map[string]any{"ok": false, "error": err.Error()})
		} else {
			out.Encode(map[string]any{"ok": true, "values": values})
		}
	}
}
