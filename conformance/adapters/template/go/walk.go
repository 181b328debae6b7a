// Encodes and decodes any message by its plan: what your codec replaces.
//
// plans.json has a plan for each message and version: the fields in wire order, the wire type of
// each, whether it may be null, and the tagged fields with their defaults.

package main

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	longestString = 32767
	unknownTags   = "_unknownTaggedFields"
)

type plan struct {
	Message       string
	Version       int
	TaggedSection bool
	Fields        []field
	Tagged        []field
	LaterTags     []int
}

type field struct {
	Name     string
	Wire     string
	Nullable bool
	Tag      *int
	Default  any
	Element  *element
}

// element is a wire type or a struct.
type element struct {
	wire string
	plan *plan
}

func (e *element) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &e.wire)
	}
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	return reader.Decode(&e.plan)
}

type key struct {
	message string
	version int
}

//go:embed plans.json
var plansText []byte

var plans = readPlans()

func readPlans() map[key]*plan {
	var all []*plan
	reader := json.NewDecoder(bytes.NewReader(plansText))
	reader.UseNumber()
	if err := reader.Decode(&all); err != nil {
		panic(err)
	}
	found := map[key]*plan{}
	for _, one := range all {
		found[key{one.Message, one.Version}] = one
	}
	return found
}

func ranges() map[string]string {
	first, last := map[string]int{}, map[string]int{}
	for held := range plans {
		if low, seen := first[held.message]; !seen || held.version < low {
			first[held.message] = held.version
		}
		last[held.message] = max(last[held.message], held.version)
	}
	out := map[string]string{}
	for message := range first {
		out[message] = fmt.Sprintf("%d-%d", first[message], last[message])
	}
	return out
}

// check refuses, by a panic that answer catches, unless something holds.
func check(holds bool, format string, args ...any) {
	if !holds {
		panic(fmt.Errorf(format, args...))
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "%v", err)
	return value
}

func find(message string, version int) *plan {
	found := plans[key{message, version}]
	check(found != nil, "there is no %s %d", message, version)
	return found
}

func walkEncode(message string, version int, value any) ([]byte, error) {
	out := writer{}
	out.putStruct(find(message, version), value)
	return out.data, nil
}

func walkDecode(message string, version int, data []byte) (any, error) {
	in := reader{data: data}
	value := in.structure(find(message, version))
	check(in.at == len(data), "%d bytes are left", len(data)-in.at)
	return value, nil
}

var bits = map[string]int{"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}

func compact(wire string) bool { return strings.HasPrefix(wire, "compact_") }

type writer struct{ data []byte }

func (w *writer) uvarint(value int) {
	w.data = binary.AppendUvarint(w.data, uint64(value))
}

func (w *writer) length(wire string, length int) {
	switch {
	case compact(wire):
		w.uvarint(length + 1)
	case wire == "string":
		w.data = binary.BigEndian.AppendUint16(w.data, uint16(length))
	default:
		w.data = binary.BigEndian.AppendUint32(w.data, uint32(length))
	}
}

func (w *writer) integer(wire string, value any) {
	number, is := value.(json.Number)
	check(is, "%s wanted, not %v", wire, value)
	var held uint64
	if strings.HasPrefix(wire, "u") {
		held = must(strconv.ParseUint(number.String(), 10, bits[wire]))
	} else {
		held = uint64(must(strconv.ParseInt(number.String(), 10, bits[wire])))
	}
	for shift := bits[wire] - 8; shift >= 0; shift -= 8 {
		w.data = append(w.data, byte(held>>shift))
	}
}

func (w *writer) putStruct(layout *plan, value any) {
	fields, is := value.(object)
	check(is, "a struct wanted, not %v", value)
	known := map[string]bool{unknownTags: layout.TaggedSection}
	for _, one := range layout.Fields {
		known[one.Name] = true
		held, has := fields[one.Name]
		check(has, "%s is missing", one.Name)
		w.put(one, held)
	}
	for _, one := range layout.Tagged {
		known[one.Name] = true
	}
	for name := range fields {
		check(known[name], "no such field: %s", name)
	}
	if layout.TaggedSection {
		w.tags(layout, fields)
	}
}

func (w *writer) tags(layout *plan, fields object) {
	tags, taken := map[int][]byte{}, map[int]bool{}
	for _, tag := range layout.LaterTags {
		taken[tag] = true
	}
	for _, one := range layout.Tagged {
		taken[*one.Tag] = true
		if held, has := fields[one.Name]; has && !reflect.DeepEqual(held, one.Default) {
			body := writer{}
			body.put(one, held)
			tags[*one.Tag] = body.data
		}
	}
	last := -1
	unknown, _ := fields[unknownTags].([]any)
	for _, one := range unknown {
		entry := one.(object)
		tag := int(must(entry["tag"].(json.Number).Int64()))
		check(last < tag && tag <= math.MaxInt32 && !taken[tag], "tag %d after %d, or taken", tag, last)
		tags[tag] = must(hex.DecodeString(entry["hex"].(string)))
		last = tag
	}
	order := make([]int, 0, len(tags))
	for tag := range tags {
		order = append(order, tag)
	}
	sort.Ints(order)
	w.uvarint(len(tags))
	for _, tag := range order {
		w.uvarint(tag)
		w.uvarint(len(tags[tag]))
		w.data = append(w.data, tags[tag]...)
	}
}

func (w *writer) put(one field, value any) {
	if _, is := bits[one.Wire]; is {
		w.integer(one.Wire, value)
		return
	}
	switch one.Wire {
	case "bool":
		if value.(bool) {
			w.data = append(w.data, 1)
		} else {
			w.data = append(w.data, 0)
		}
		return
	case "float64":
		w.float(value)
		return
	case "uuid":
		data := must(base64.RawURLEncoding.DecodeString(value.(string)))
		check(len(data) == 16, "a uuid has 16 bytes")
		w.data = append(w.data, data...)
		return
	}
	if value == nil {
		check(one.Nullable, "%s is never null", one.Name)
		switch {
		case one.Wire != "struct":
			w.length(one.Wire, -1)
		case one.Tag != nil:
			w.data = append(w.data, 0)
		default:
			w.data = append(w.data, 0xff)
		}
		return
	}
	switch {
	case one.Wire == "struct":
		if one.Nullable {
			w.data = append(w.data, 1)
		}
		w.putStruct(one.Element.plan, value)
	case strings.HasSuffix(one.Wire, "array"):
		items := value.([]any)
		w.length(one.Wire, len(items))
		for _, item := range items {
			if one.Element.plan != nil {
				w.putStruct(one.Element.plan, item)
			} else {
				w.put(field{Name: one.Name, Wire: one.Element.wire}, item)
			}
		}
	default:
		data := []byte(value.(string))
		if strings.HasSuffix(one.Wire, "string") {
			check(len(data) <= longestString, "%s has %d bytes", one.Name, len(data))
		} else {
			data = must(base64.StdEncoding.DecodeString(value.(string)))
		}
		w.length(one.Wire, len(data))
		w.data = append(w.data, data...)
	}
}

func (w *writer) float(value any) {
	if text, is := value.(string); is {
		data := must(hex.DecodeString(strings.TrimPrefix(text, "0x")))
		check(len(data) == 8, "a float64 has 8 bytes")
		w.data = append(w.data, data...)
		return
	}
	number := value.(json.Number)
	check(strings.ContainsAny(number.String(), ".eE"), "a float64 wanted, not %s", number)
	w.data = binary.BigEndian.AppendUint64(w.data, math.Float64bits(must(number.Float64())))
}

type reader struct {
	data []byte
	at   int
}

func (r *reader) take(count int) []byte {
	check(count <= len(r.data)-r.at, "%d bytes wanted at %d", count, r.at)
	r.at += count
	return r.data[r.at-count : r.at]
}

func (r *reader) uvarint() int {
	value := 0
	for at := 0; at < 5; at++ {
		held := r.take(1)[0]
		value |= int(held&0x7f) << (7 * at)
		if held < 0x80 {
			check(held > 0 || at == 0, "a varint in too many bytes")
			check(value <= math.MaxInt32, "a varint of more than 31 bits")
			return value
		}
	}
	panic(fmt.Errorf("a varint has at most 5 bytes"))
}

func (r *reader) length(one field) int {
	var length int
	switch {
	case compact(one.Wire):
		length = r.uvarint() - 1
	case one.Wire == "string":
		length = int(int16(binary.BigEndian.Uint16(r.take(2))))
	default:
		length = int(int32(binary.BigEndian.Uint32(r.take(4))))
	}
	check(length >= -1, "length %d", length)
	check(length >= 0 || one.Nullable, "%s is never null", one.Name)
	check(length <= len(r.data)-r.at, "%s: length %d", one.Name, length)
	return length
}

func (r *reader) structure(layout *plan) object {
	value := object{}
	for _, one := range layout.Fields {
		value[one.Name] = r.value(one)
	}
	if !layout.TaggedSection {
		return value
	}
	known, later := map[int]field{}, map[int]bool{}
	for _, one := range layout.Tagged {
		known[*one.Tag] = one
	}
	for _, tag := range layout.LaterTags {
		later[tag] = true
	}
	unknown := []object{}
	last := -1
	for count := r.uvarint(); count > 0; count-- {
		tag := r.uvarint()
		check(last < tag && !later[tag], "tag %d after %d", tag, last)
		last = tag
		size := r.uvarint()
		one, is := known[tag]
		if !is {
			unknown = append(unknown, object{"tag": tag, "hex": hex.EncodeToString(r.take(size))})
			continue
		}
		start := r.at
		held := r.value(one)
		check(r.at-start == size, "tag %d has %d bytes, not %d", tag, r.at-start, size)
		if !reflect.DeepEqual(held, one.Default) {
			value[one.Name] = held
		}
	}
	if len(unknown) > 0 {
		value[unknownTags] = unknown
	}
	return value
}

func (r *reader) integer(wire string) json.Number {
	var held uint64
	for _, one := range r.take(bits[wire] / 8) {
		held = held<<8 | uint64(one)
	}
	if strings.HasPrefix(wire, "u") {
		return json.Number(strconv.FormatUint(held, 10))
	}
	unused := 64 - bits[wire]
	return json.Number(strconv.FormatInt(int64(held<<unused)>>unused, 10))
}

func (r *reader) value(one field) any {
	if _, is := bits[one.Wire]; is {
		return r.integer(one.Wire)
	}
	switch one.Wire {
	case "bool":
		held := r.take(1)[0]
		check(held <= 1, "a bool is 0 or 1, not %d", held)
		return held == 1
	case "float64":
		data := r.take(8)
		value := math.Float64frombits(binary.BigEndian.Uint64(data))
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return "0x" + hex.EncodeToString(data)
		}
		text := strconv.FormatFloat(value, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // A float has a point: 1.0
		}
		return json.RawMessage(text)
	case "uuid":
		return base64.RawURLEncoding.EncodeToString(r.take(16))
	case "struct":
		if one.Nullable {
			none := byte(0xff)
			if one.Tag != nil {
				none = 0
			}
			marker := r.take(1)[0]
			check(marker == 1 || marker == none, "marker %d", marker)
			if marker == none {
				return nil
			}
		}
		return r.structure(one.Element.plan)
	}
	length := r.length(one)
	if length < 0 {
		return nil
	}
	if strings.HasSuffix(one.Wire, "array") {
		items := make([]any, length)
		for at := range items {
			if one.Element.plan != nil {
				items[at] = r.structure(one.Element.plan)
			} else {
				items[at] = r.value(field{Name: one.Name, Wire: one.Element.wire})
			}
		}
		return items
	}
	data := r.take(length)
	if !strings.HasSuffix(one.Wire, "string") {
		return base64.StdEncoding.EncodeToString(data)
	}
	check(length <= longestString, "%s has %d bytes", one.Name, length)
	check(utf8.Valid(data), "%s is not UTF-8", one.Name)
	return string(data)
}
