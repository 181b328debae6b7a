// An adapter of harness protocol 1 over sarama: the JSON values of the protocol to and from the
// structs of its requests and responses, by reflection and by Kafka's schemas.
//
// sarama has a struct for all versions of a message, and often another field for the same one of
// Kafka's in newer versions. So each version is bound by itself.
package main

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/IBM/sarama"

	"kraftspec/harness"
)

const library = "sarama"

func main() {
	batches, err := bindBatches()
	if err != nil {
		panic(err)
	}
	harness.Main(harness.Library{
		Name: library, Short: library, Module: "github.com/IBM/sarama",
		Notes: "requests and responses, by reflection; records in them and unknown tagged fields are not kept",

		Messages: map[string]harness.Message{"RecordBatch": batches},
	}, bind)
}

// versionMax is above all versions of sarama.
const versionMax = 20

type message struct {
	valid   harness.Versions // by the schema
	has     harness.Versions // by sarama
	served  harness.Versions // by both
	layouts map[int16]*harness.Layout
	shape   shape
	make    func(version int16) any
	encode  func(made any) ([]byte, error)
	decode  func(data []byte, made any, version int16) error
}

// members are what consumers give each other. They begin with their version, which Kafka's schema
// does not have.
var members = map[string]func() any{
	"ConsumerProtocolSubscription": func() any { return new(sarama.ConsumerGroupMemberMetadata) },
	"ConsumerProtocolAssignment":   func() any { return new(sarama.ConsumerGroupMemberAssignment) },
}

func (m *message) ofMember(made func() any) {
	m.make = func(int16) any { return made() }
	m.encode = func(made any) ([]byte, error) {
		data, err := sarama.EncodeMember(made)
		return data[min(2, len(data)):], err
	}
	m.decode = func(data []byte, made any, version int16) error {
		whole := append(binary.BigEndian.AppendUint16(nil, uint16(version)), data...)
		return sarama.DecodeMember(whole, made)
	}
}

func (m *message) ofBody(key int16, response bool) {
	m.make = func(version int16) any { return sarama.NewBody(key, version, response) }
	m.encode = func(made any) ([]byte, error) { return sarama.EncodeBody(made.(sarama.Body)) }
	m.decode = func(data []byte, made any, version int16) error {
		return sarama.DecodeBody(data, made.(sarama.Body), version)
	}
}

func bind(schema *harness.Schema) (harness.Message, error) {
	m := &message{shape: shapes[schema.Name], layouts: make(map[int16]*harness.Layout)}
	var err error
	if m.valid, err = harness.ParseVersions(schema.ValidVersions, harness.Versions{}); err != nil {
		return nil, err
	}
	if made, ok := members[schema.Name]; ok {
		m.has = m.valid
		m.ofMember(made)
	} else {
		response := schema.Type == "response"
		if schema.Type != "request" && !response || sarama.NewBody(*schema.APIKey, 0, response) == nil {
			return nil, nil
		}
		m.has = harness.Versions{First: versionMax, Last: -1}
		for version := range int16(versionMax) {
			if sarama.HasVersion(sarama.NewBody(*schema.APIKey, version, response)) {
				m.has.First, m.has.Last = min(m.has.First, version), version
			}
		}
		m.ofBody(*schema.APIKey, response)
	}
	m.served.First = max(m.valid.First, m.has.First)
	m.served.Last = min(m.valid.Last, m.has.Last)
	for version := m.served.First; version <= m.served.Last; version++ {
		one := *schema
		one.Fields = inOrder(schema.Fields, version)
		one.CommonStructs = inOrder(schema.CommonStructs, version)
		if m.shape.fields != nil {
			one.Fields = m.shape.fields(one.Fields, version)
		}
		binder := harness.Binder{Short: library, Find: finder(version)}
		m.layouts[version], err = binder.Bind(&one, reflect.TypeOf(m.make(version)).Elem())
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", version, err)
		}
	}
	return m, nil
}

func (m *message) Encode(version int16, value any) ([]byte, error) {
	made := m.make(version)
	if object, ok := value.(map[string]any); ok && m.shape.in != nil {
		if err := m.shape.in(object, version); err != nil {
			return nil, err
		}
	}
	to := reflect.ValueOf(made).Elem()
	if err := m.layouts[version].Set(to, version, value); err != nil {
		return nil, err
	}
	setVersions(to, version)
	if request, ok := made.(*sarama.OffsetRequest); ok {
		sarama.UseReplica(request)
	}
	return m.encode(made)
}

// setVersions sets the version that many structs within a message have, too.
func setVersions(in reflect.Value, version int16) {
	switch in.Kind() {
	case reflect.Pointer:
		if !in.IsNil() {
			setVersions(in.Elem(), version)
		}
	case reflect.Slice:
		for i := range in.Len() {
			setVersions(in.Index(i), version)
		}
	case reflect.Map:
		for _, key := range in.MapKeys() {
			setVersions(in.MapIndex(key), version)
		}
	case reflect.Struct:
		for i := range in.NumField() {
			field := in.Field(i)
			if in.Type().Field(i).Name == "Version" && field.CanSet() && field.CanInt() {
				field.SetInt(int64(version))
			} else {
				setVersions(field, version)
			}
		}
	}
}

func (m *message) Decode(version int16, data []byte) (map[string]any, int, error) {
	if err := m.layouts[version].Check(version); err != nil {
		return nil, 0, err
	}
	made := m.make(version)
	if err := m.decode(data, made, version); err != nil {
		return nil, 0, err
	}
	if request, ok := made.(*sarama.OffsetRequest); ok {
		request.SetReplicaID(request.ReplicaID())
	}
	value, err := m.layouts[version].Get(reflect.ValueOf(made).Elem(), version)
	if err == nil && m.shape.out != nil {
		m.shape.out(value, version)
	}
	return value, 0, err
}

// Check says why a version is not put to sarama.
func (m *message) Check(version int16) error {
	if m.served.Has(version) {
		return nil
	}
	if m.valid.Has(version) {
		return &harness.Skipped{Reason: library + " does not have this version"}
	}
	if m.has.Has(version) {
		return &harness.Skipped{Reason: library + " has this version, the specs do not"}
	}
	detail := fmt.Sprintf("sarama has versions %d-%d", m.has.First, m.has.Last)
	return &harness.Refusal{Class: "unsupported_version", Detail: detail}
}

func (m *message) Served() (first, last int16, ok bool) {
	return m.served.First, m.served.Last, m.served.First <= m.served.Last
}
