// An adapter of harness protocol 1 over kafka-go: the JSON values of the protocol to and from the
// structs of its package protocol, by reflection and by Kafka's schemas.
//
// The library reads and writes whole frames, and so the adapter gives it a header as a client or a
// broker would, of the version that Kafka's schema says.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/segmentio/kafka-go/protocol"

	"kraftspec/harness"
)

var binder = harness.Binder{Short: "kafka-go", Find: fieldNames}

func main() {
	harness.Main(harness.Library{
		Name: "kafka-go", Short: "kafka-go", Module: "github.com/segmentio/kafka-go",
		Notes: "package protocol, by reflection; records and unknown tagged fields are not kept",
	}, bind)
}

type message struct {
	key      protocol.ApiKey
	response bool
	served   harness.Versions // those that both the schema and kafka-go have
	valid    harness.Versions
	flexible harness.Versions // by the schema
	layout   *harness.Layout
	make     func() protocol.Message
}

func bind(schema *harness.Schema) (harness.Message, error) {
	if schema.Type != "request" && schema.Type != "response" {
		return nil, nil
	}
	pair, ok := pairs[protocol.ApiKey(*schema.APIKey)]
	if !ok {
		return nil, nil
	}
	m := &message{key: protocol.ApiKey(*schema.APIKey), response: schema.Type == "response"}
	var err error
	if m.valid, err = harness.ParseVersions(schema.ValidVersions, harness.Versions{}); err != nil {
		return nil, err
	}
	none := harness.Versions{First: 1, Last: 0}
	if m.flexible, err = harness.ParseVersions(schema.FlexibleVersions, none); err != nil {
		return nil, err
	}
	m.served.First = max(m.valid.First, m.key.MinVersion())
	m.served.Last = min(m.valid.Last, m.key.MaxVersion())
	m.make = pair[0]
	if m.response {
		m.make = pair[1]
	}
	m.layout, err = binder.Bind(schema, reflect.TypeOf(m.make()).Elem())
	return m, err
}

const clientID = "kraftspec"

// header is what comes before the body, without the size.
func (m *message) header(version int16) []byte {
	const correlationID = 7
	if m.response {
		out := binary.BigEndian.AppendUint32(nil, correlationID)
		if m.flexible.Has(version) && m.key != protocol.ApiVersions {
			out = append(out, 0)
		}
		return out
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(m.key))
	out = binary.BigEndian.AppendUint16(out, uint16(version))
	out = binary.BigEndian.AppendUint32(out, correlationID)
	out = binary.BigEndian.AppendUint16(out, uint16(len(clientID)))
	out = append(out, clientID...)
	if m.flexible.Has(version) {
		out = append(out, 0)
	}
	return out
}

func (m *message) Encode(version int16, value any) ([]byte, error) {
	made := m.make()
	if err := m.layout.Set(reflect.ValueOf(made).Elem(), version, value); err != nil {
		return nil, err
	}
	if prepared, ok := made.(protocol.PreparedMessage); ok {
		prepared.Prepare(version)
	}
	var out bytes.Buffer
	var err error
	if m.response {
		err = protocol.WriteResponse(&out, version, 7, made)
	} else {
		err = protocol.WriteRequest(&out, version, 7, clientID, made)
	}
	if err != nil {
		return nil, err
	}
	body, found := bytes.CutPrefix(out.Bytes()[4:], m.header(version))
	if !found {
		return nil, harness.Wrong("refused", "", "the header is not that of Kafka: %x", out.Bytes())
	}
	return body, nil
}

// frame is a reader of one frame that counts what the library skips at its end.
type frame struct {
	*bytes.Reader
	skipped int
}

func (f *frame) Discard(count int) (int, error) {
	f.skipped += min(count, f.Len())
	skipped, err := f.Seek(int64(min(count, f.Len())), 1)
	return int(skipped), err
}

func (m *message) Decode(version int16, data []byte) (map[string]any, int, error) {
	whole := append(m.header(version), data...)
	whole = append(binary.BigEndian.AppendUint32(nil, uint32(len(whole))), whole...)
	in := &frame{Reader: bytes.NewReader(whole)}
	var made protocol.Message
	var err error
	if m.response {
		_, made, err = protocol.ReadResponse(in, m.key, version)
	} else {
		_, _, _, made, err = protocol.ReadRequest(in)
	}
	if err != nil {
		return nil, 0, err
	}
	value, err := m.layout.Get(reflect.ValueOf(made).Elem(), version)
	return value, in.skipped, err
}

// Check says why a version is not put to kafka-go.
func (m *message) Check(version int16) error {
	if m.served.Has(version) {
		return nil
	}
	if m.valid.Has(version) {
		return &harness.Skipped{Reason: "kafka-go does not have this version"}
	}
	detail := fmt.Sprintf("kafka-go has versions %d-%d", m.key.MinVersion(), m.key.MaxVersion())
	if m.key.MinVersion() <= version && version <= m.key.MaxVersion() {
		return &harness.Skipped{Reason: "kafka-go has this version, the specs do not"}
	}
	return &harness.Refusal{Class: "unsupported_version", Detail: detail}
}

func (m *message) Served() (first, last int16, ok bool) {
	return m.served.First, m.served.Last, m.served.First <= m.served.Last
}
