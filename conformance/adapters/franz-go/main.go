// An adapter of harness protocol 1 over franz-go's kmsg: the JSON values of the protocol to and
// from the structs of kmsg, by reflection and by Kafka's schemas.
package main

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kraftspec/harness"
)

var byOwnField = &harness.Skipped{Reason: "kmsg goes by the version that stands in the message"}

var binder = harness.Binder{
	Short: "kmsg",
	Find:  fieldNames,
	Tags: &harness.Tags{
		Field: "UnknownTags",
		Set:   func(field any, tag uint32, data []byte) { field.(*kmsg.Tags).Set(tag, data) },
		Each:  func(field any, do func(uint32, []byte)) { field.(*kmsg.Tags).Each(do) },
	},
}

func main() {
	harness.Main(harness.Library{
		Name: "franz-go", Short: "kmsg", Module: "github.com/twmb/franz-go/pkg/kmsg",
		Notes: "kmsg, by reflection",
	}, bind)
}

// codec is what all structs of kmsg can do.
type codec interface {
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
}

// message is what the adapter serves under one name.
type message struct {
	valid  harness.Versions // by the schema
	max    int16            // by kmsg; for what is no request and no response by the schema
	make   func() any
	prefix bool // kmsg writes the version in front, as it stands on disk.
	within bool // The message holds its version itself, and kmsg goes by that one.
	layout *harness.Layout
}

// dataTypes are the structs of kmsg that are neither requests nor responses, by Kafka's name.
var dataTypes = map[string]func() any{
	"ConsumerProtocolAssignment":   func() any { return new(kmsg.ConsumerMemberAssignment) },
	"ConsumerProtocolSubscription": func() any { return new(kmsg.ConsumerMemberMetadata) },
	"ControlRecordTypeSchema":      func() any { return new(kmsg.ControlRecordKey) },
	"DefaultPrincipalData":         func() any { return new(kmsg.DefaultPrincipalData) },
	"EndTxnMarker":                 func() any { return new(kmsg.EndTxnMarker) },
	"GroupMetadataKey":             func() any { return new(kmsg.GroupMetadataKey) },
	"GroupMetadataValue":           func() any { return new(kmsg.GroupMetadataValue) },
	"LeaderChangeMessage":          func() any { return new(kmsg.LeaderChangeMessage) },
	"LegacyOffsetCommitKey":        func() any { return new(kmsg.OffsetCommitKey) },
	"OffsetCommitKey":              func() any { return new(kmsg.OffsetCommitKey) },
	"OffsetCommitValue":            func() any { return new(kmsg.OffsetCommitValue) },
	"TransactionLogKey":            func() any { return new(kmsg.TxnMetadataKey) },
	"TransactionLogValue":          func() any { return new(kmsg.TxnMetadataValue) },
}

func bind(schema *harness.Schema) (harness.Message, error) {
	valid, err := harness.ParseVersions(schema.ValidVersions, harness.Versions{})
	if err != nil {
		return nil, err
	}
	m := &message{valid: valid, max: valid.Last}
	switch {
	case schema.Type == "request" && kmsg.RequestForKey(*schema.APIKey) != nil:
		m.make = func() any { return kmsg.RequestForKey(*schema.APIKey) }
		m.max = kmsg.RequestForKey(*schema.APIKey).MaxVersion()
	case schema.Type == "response" && kmsg.ResponseForKey(*schema.APIKey) != nil:
		m.make = func() any { return kmsg.ResponseForKey(*schema.APIKey) }
		m.max = kmsg.ResponseForKey(*schema.APIKey).MaxVersion()
	case dataTypes[schema.Name] != nil:
		m.make = dataTypes[schema.Name]
	default:
		return nil, nil
	}
	m.layout, err = binder.Bind(schema, reflect.TypeOf(m.make()).Elem())
	if err != nil {
		return nil, err
	}
	_, numbered := m.layout.GoType.FieldByName("Version")
	_, asked := m.make().(kmsg.Request)
	_, replied := m.make().(kmsg.Response)
	m.within = m.layout.Has("version")
	m.prefix = numbered && !asked && !replied && !m.within
	return m, nil
}

func (m *message) new(version int16) reflect.Value {
	made := reflect.ValueOf(m.make())
	if defaults, ok := made.Interface().(interface{ Default() }); ok {
		defaults.Default()
	}
	if number := made.Elem().FieldByName("Version"); number.IsValid() {
		number.SetInt(int64(version))
	}
	return made
}

func (m *message) Encode(version int16, value any) ([]byte, error) {
	made := m.new(version)
	if err := m.layout.Set(made.Elem(), version, value); err != nil {
		return nil, err
	}
	if m.within && made.Elem().FieldByName("Version").Int() != int64(version) {
		return nil, byOwnField
	}
	written := made.Interface().(codec).AppendTo(nil)
	if m.prefix {
		written = written[2:]
	}
	return written, nil
}

func (m *message) Decode(version int16, data []byte) (map[string]any, int, error) {
	if m.prefix {
		data = append(binary.BigEndian.AppendUint16(nil, uint16(version)), data...)
	}
	if m.within && len(data) >= 2 && binary.BigEndian.Uint16(data) != uint16(version) {
		return nil, 0, byOwnField
	}
	made := m.new(version)
	if err := made.Interface().(codec).ReadFrom(data); err != nil {
		return nil, 0, err
	}
	value, err := m.layout.Get(made.Elem(), version)
	return value, 0, err
}

// Check says why a version is not put to kmsg.
func (m *message) Check(version int16) error {
	switch {
	case m.valid.Has(version) && version <= m.max:
		return m.layout.Check(version)
	case m.valid.Has(version):
		return &harness.Skipped{Reason: fmt.Sprintf("kmsg's last version is %d", m.max)}
	case version >= 0 && version <= m.max:
		return &harness.Skipped{Reason: "kmsg has this version, the specs do not"}
	}
	return &harness.Skipped{Reason: "kmsg leaves the check of versions to its caller"}
}

// Served is the range of versions that both the schema and kmsg have.
func (m *message) Served() (first, last int16, ok bool) {
	last = min(m.valid.Last, m.max)
	return m.valid.First, last, m.valid.First <= last
}
