package main

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/IBM/sarama"

	"kraftspec/harness"
)

// A record batch has no schema of Kafka's. These are its fields, as the harness protocol has them.
type batch struct {
	BaseOffset           int64
	PartitionLeaderEpoch int32
	Attributes           int16
	LastOffsetDelta      int32
	BaseTimestamp        int64
	MaxTimestamp         int64
	ProducerID           int64
	ProducerEpoch        int16
	BaseSequence         int32
	Records              []record
}

type record struct {
	Attributes     int8
	TimestampDelta int64
	OffsetDelta    int64
	Key            []byte
	Value          []byte
	Headers        []header
}

type header struct {
	Key   string
	Value []byte
}

const batchSchema = `{"name": "RecordBatch", "type": "data", "fields": [
	{"name": "BaseOffset", "type": "int64", "versions": "0+"},
	{"name": "PartitionLeaderEpoch", "type": "int32", "versions": "0+"},
	{"name": "Attributes", "type": "int16", "versions": "0+"},
	{"name": "LastOffsetDelta", "type": "int32", "versions": "0+"},
	{"name": "BaseTimestamp", "type": "int64", "versions": "0+"},
	{"name": "MaxTimestamp", "type": "int64", "versions": "0+"},
	{"name": "ProducerId", "type": "int64", "versions": "0+"},
	{"name": "ProducerEpoch", "type": "int16", "versions": "0+"},
	{"name": "BaseSequence", "type": "int32", "versions": "0+"},
	{"name": "Records", "type": "[]Record", "versions": "0+", "fields": [
		{"name": "Attributes", "type": "int8", "versions": "0+"},
		{"name": "TimestampDelta", "type": "int64", "versions": "0+"},
		{"name": "OffsetDelta", "type": "int32", "versions": "0+"},
		{"name": "Key", "type": "bytes", "versions": "0+", "nullableVersions": "0+"},
		{"name": "Value", "type": "bytes", "versions": "0+", "nullableVersions": "0+"},
		{"name": "Headers", "type": "[]Header", "versions": "0+", "fields": [
			{"name": "Key", "type": "string", "versions": "0+"},
			{"name": "Value", "type": "bytes", "versions": "0+", "nullableVersions": "0+"}
		]}
	]}
]}`

const (
	batchVersion  = 2
	codecMask     = 7
	logAppendTime = 1 << 3
	transactional = 1 << 4
	control       = 1 << 5
)

type batches struct{ layout *harness.Layout }

func bindBatches() (*batches, error) {
	var schema harness.Schema
	if err := json.Unmarshal([]byte(batchSchema), &schema); err != nil {
		return nil, err
	}
	binder := harness.Binder{Short: library, Find: finder(batchVersion)}
	layout, err := binder.Bind(&schema, reflect.TypeFor[batch]())
	return &batches{layout}, err
}

func (*batches) Served() (first, last int16, ok bool) { return batchVersion, batchVersion, true }

func (*batches) Check(version int16) error {
	if version == batchVersion {
		return nil
	}
	return &harness.Refusal{Class: "unsupported_version", Detail: "sarama has record batches of version 2"}
}

func (b *batches) Encode(version int16, value any) ([]byte, error) {
	var given batch
	if err := b.layout.Set(reflect.ValueOf(&given).Elem(), version, value); err != nil {
		return nil, err
	}
	if given.Attributes&^(logAppendTime|transactional|control) != 0 {
		return nil, &harness.Skipped{Reason: "sarama has no field for all bits of the attributes"}
	}
	made := sarama.RecordBatch{
		FirstOffset: given.BaseOffset, PartitionLeaderEpoch: given.PartitionLeaderEpoch,
		Version: batchVersion, LogAppendTime: given.Attributes&logAppendTime != 0,
		IsTransactional: given.Attributes&transactional != 0, Control: given.Attributes&control != 0,
		LastOffsetDelta: given.LastOffsetDelta, ProducerID: given.ProducerID,
		ProducerEpoch: given.ProducerEpoch, FirstSequence: given.BaseSequence,
		FirstTimestamp: harness.Time(given.BaseTimestamp), MaxTimestamp: harness.Time(given.MaxTimestamp),
	}
	for _, one := range given.Records {
		held := &sarama.Record{
			Attributes: one.Attributes, OffsetDelta: one.OffsetDelta, Key: one.Key, Value: one.Value,
			TimestampDelta: time.Duration(one.TimestampDelta) * time.Millisecond,
		}
		for _, header := range one.Headers {
			entry := &sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value}
			held.Headers = append(held.Headers, entry)
		}
		made.Records = append(made.Records, held)
	}
	return sarama.EncodeMember(&made)
}

func (b *batches) Decode(version int16, data []byte) (map[string]any, int, error) {
	var read sarama.RecordBatch
	if err := sarama.DecodeMember(data, &read); err != nil {
		return nil, 0, err
	}
	if read.PartialTrailingRecord {
		return nil, 0, &harness.Refusal{Class: "truncated", Detail: "sarama sees no whole batch"}
	}
	made := batch{
		BaseOffset: read.FirstOffset, PartitionLeaderEpoch: read.PartitionLeaderEpoch,
		Attributes: int16(read.Codec) & codecMask, LastOffsetDelta: read.LastOffsetDelta,
		BaseTimestamp: harness.Millis(read.FirstTimestamp), MaxTimestamp: harness.Millis(read.MaxTimestamp),
		ProducerID: read.ProducerID, ProducerEpoch: read.ProducerEpoch, BaseSequence: read.FirstSequence,
	}
	for bit, set := range map[int16]bool{
		logAppendTime: read.LogAppendTime, transactional: read.IsTransactional, control: read.Control,
	} {
		if set {
			made.Attributes |= bit
		}
	}
	for _, one := range read.Records {
		held := record{
			Attributes: one.Attributes, TimestampDelta: one.TimestampDelta.Milliseconds(),
			OffsetDelta: one.OffsetDelta, Key: one.Key, Value: one.Value,
		}
		for _, entry := range one.Headers {
			held.Headers = append(held.Headers, header{string(entry.Key), entry.Value})
		}
		made.Records = append(made.Records, held)
	}
	value, err := b.layout.Get(reflect.ValueOf(&made).Elem(), version)
	return value, 0, err
}
