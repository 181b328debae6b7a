package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// schemaFile is what is read of one of Kafka's schemas.
type schemaFile struct {
	APIKey        *int16        `json:"apiKey"`
	Type          string        `json:"type"`
	Name          string        `json:"name"`
	ValidVersions string        `json:"validVersions"`
	CommonStructs []schemaField `json:"commonStructs"`
	Fields        []schemaField `json:"fields"`
}

type schemaField struct {
	Name             string          `json:"name"`
	Type             string          `json:"type"`
	Versions         string          `json:"versions"`
	NullableVersions string          `json:"nullableVersions"`
	TaggedVersions   string          `json:"taggedVersions"`
	Default          json.RawMessage `json:"default"`
	Fields           []schemaField   `json:"fields"`
}

type versions struct{ first, last int16 }

func (v versions) has(version int16) bool { return v.first <= version && version <= v.last }

// parseVersions reads "2", "1-3", "4+" and "none"; absent is as the schema language has it.
func parseVersions(text string, absent versions) (versions, error) {
	switch {
	case text == "":
		return absent, nil
	case text == "none":
		return versions{1, 0}, nil
	case strings.HasSuffix(text, "+"):
		first, err := strconv.ParseInt(strings.TrimSuffix(text, "+"), 10, 16)
		return versions{int16(first), math.MaxInt16}, err
	}
	first, last, found := strings.Cut(text, "-")
	if !found {
		last = first
	}
	a, err := strconv.ParseInt(first, 10, 16)
	if err != nil {
		return versions{}, err
	}
	b, err := strconv.ParseInt(last, 10, 16)
	return versions{int16(a), int16(b)}, err
}

// field is one field of a schema, bound to the field of kmsg's struct that holds it.
type field struct {
	name     string // camelCase, as in the harness protocol
	typeName string // without []
	array    bool
	versions versions
	nullable versions
	tagged   versions
	byTag    bool // The value where a tagged field is absent is known, and is:
	absent   any  // as JSON has it.
	inner    *layout
	index    int // in kmsg's struct, or -1
}

// layout is a struct of a schema and the struct of kmsg that goes with it.
type layout struct {
	goType reflect.Type
	fields []field
	tags   int // the index of UnknownTags, or -1
}

// message is what the adapter serves under one name.
type message struct {
	name   string
	valid  versions // by the schema
	max    int16    // by kmsg; for what is no request and no response by the schema
	make   func() any
	prefix bool // kmsg writes the version in front, as it stands on disk.
	within bool // The message holds its version itself, and kmsg goes by that one.
	layout *layout
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

// load binds every schema below a directory that kmsg has a struct for.
func load(root string) (map[string]*message, error) {
	catalogue := make(map[string]*message)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var schema schemaFile
		if err := json.Unmarshal(text, &schema); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		m, err := bind(&schema)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if m != nil {
			catalogue[m.name] = m
		}
		return nil
	})
	return catalogue, err
}

func bind(schema *schemaFile) (*message, error) {
	valid, err := parseVersions(schema.ValidVersions, versions{})
	if err != nil {
		return nil, err
	}
	m := &message{name: schema.Name, valid: valid, max: valid.last}
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
	b := binder{commons: make(map[string][]schemaField), valid: valid}
	for _, common := range schema.CommonStructs {
		b.commons[common.Name] = common.Fields
	}
	m.layout, err = b.layout(schema.Fields, reflect.TypeOf(m.make()).Elem())
	if err != nil {
		return nil, err
	}
	_, numbered := m.layout.goType.FieldByName("Version")
	_, asked := m.make().(kmsg.Request)
	_, replied := m.make().(kmsg.Response)
	m.within = m.layout.hasField("version")
	m.prefix = numbered && !asked && !replied && !m.within
	return m, nil
}

func (l *layout) hasField(name string) bool {
	for _, f := range l.fields {
		if f.name == name {
			return true
		}
	}
	return false
}

type binder struct {
	commons map[string][]schemaField
	valid   versions
}

func (b *binder) layout(fields []schemaField, goType reflect.Type) (*layout, error) {
	out := &layout{goType: goType, tags: -1}
	if tags, ok := goType.FieldByName("UnknownTags"); ok {
		out.tags = tags.Index[0]
	}
	names := fieldNames(fields, goType)
	for i := range fields {
		f, err := b.field(&fields[i], goType, names[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fields[i].Name, err)
		}
		out.fields = append(out.fields, f)
	}
	return out, nil
}

func (b *binder) field(s *schemaField, goType reflect.Type, index int) (f field, err error) {
	f.name = strings.ToLower(s.Name[:1]) + s.Name[1:]
	f.typeName, f.array = strings.CutPrefix(s.Type, "[]")
	f.index = index
	none := versions{1, 0}
	if f.tagged, err = parseVersions(s.TaggedVersions, none); err != nil {
		return f, err
	}
	// A tagged field may leave its versions out: they are those in which it is tagged.
	if f.versions, err = parseVersions(s.Versions, f.tagged); err != nil {
		return f, err
	}
	if f.nullable, err = parseVersions(s.NullableVersions, none); err != nil {
		return f, err
	}
	children := s.Fields
	if children == nil {
		children = b.commons[f.typeName]
	}
	if children != nil && index >= 0 {
		inner := goType.Field(index).Type
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			return f, fmt.Errorf("kmsg has %s for a struct", inner)
		}
		if f.inner, err = b.layout(children, inner); err != nil {
			return f, err
		}
	}
	f.absent, f.byTag = absentValue(s, &f)
	return f, nil
}

// absentValue is the value of a tagged field that is not on the wire, in the JSON of the protocol.
func absentValue(s *schemaField, f *field) (any, bool) {
	text := strings.Trim(string(s.Default), `"`)
	switch {
	case text == "null" && s.Default[0] == '"':
		return nil, true
	case f.array:
		return []any{}, true
	case f.typeName == "string":
		return text, true
	case f.typeName == "bytes" || f.typeName == "records":
		return base64.StdEncoding.EncodeToString([]byte(text)), true
	case f.typeName == "uuid":
		return encodeUUID([16]byte{}), true
	case f.typeName == "bool":
		return text == "true", true
	case strings.Contains(f.typeName, "int"):
		number, _ := strconv.ParseInt(text, 0, 64) // 0 where there is no default
		return number, true
	}
	return nil, false // A struct: see isDefault.
}

// check says why a version is not put to kmsg.
func (m *message) check(version int16) error {
	if m.valid.has(version) && version <= m.max {
		for i := range m.layout.fields {
			if err := m.layout.fields[i].check(version, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if m.valid.has(version) {
		return &skipped{fmt.Sprintf("kmsg's last version is %d", m.max)}
	}
	if version >= 0 && version <= m.max {
		return &skipped{"kmsg has this version, the specs do not"}
	}
	return &skipped{"kmsg leaves the check of versions to its caller"}
}

func (f *field) check(version int16, path string) error {
	if !f.versions.has(version) {
		return nil
	}
	path += f.name
	if f.index < 0 {
		return &skipped{"kmsg has no field for " + path}
	}
	if f.inner == nil {
		return nil
	}
	for i := range f.inner.fields {
		if err := f.inner.fields[i].check(version, path+"."); err != nil {
			return err
		}
	}
	return nil
}

// served is the range of versions that both the schema and kmsg have.
func (m *message) served() (first, last int16, ok bool) {
	last = min(m.valid.last, m.max)
	return m.valid.first, last, m.valid.first <= last
}
