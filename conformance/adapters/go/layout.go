package harness

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Field is one field of a schema, bound to the field of a library's struct that holds it.
type Field struct {
	Name     string // camelCase, as in the harness protocol
	typeName string // without []
	array    bool
	versions Versions
	nullable Versions
	tagged   Versions
	byTag    bool // The value where a tagged field is absent is known, and is:
	absent   any  // as JSON has it.
	inner    *Layout
	index    []int // in the library's struct, through embedded ones; nil: it has no such field
}

// Layout is a struct of a schema, and what the library has for it: a struct; a map, in which the first
// field of the schema is the key, and the others are the value; or one of its fields alone.
type Layout struct {
	GoType reflect.Type
	Fields []Field
	tags   []int // the index of the unknown tagged fields, or nil
	binder *Binder
	rest   *Layout // of a map: the struct that is its value; nil: the second field alone is.
}

// Tags is how a library keeps unknown tagged fields: in a field of its structs of this name.
type Tags struct {
	Field string
	Set   func(field any, tag uint32, data []byte)
	Each  func(field any, do func(tag uint32, data []byte))
}

// Binder finds the fields of a library's structs.
type Binder struct {
	Short string // what details call the library
	// Find returns the index in a struct of each of a schema's fields, nil for none.
	Find func(fields []SchemaField, goType reflect.Type) [][]int
	Tags *Tags // nil: the library keeps none

	commons map[string][]SchemaField
}

// Bind lays a message of a schema over a struct.
func (b Binder) Bind(schema *Schema, goType reflect.Type) (*Layout, error) {
	b.commons = make(map[string][]SchemaField)
	for _, common := range schema.CommonStructs {
		b.commons[common.Name] = common.Fields
	}
	return b.layout(schema.Fields, goType)
}

func (b *Binder) layout(fields []SchemaField, goType reflect.Type) (*Layout, error) {
	out := &Layout{GoType: goType, binder: b}
	if goType.Kind() == reflect.Map {
		return out, b.mapped(out, fields)
	}
	if goType.Kind() != reflect.Struct {
		return out, b.alone(out, fields)
	}
	if b.Tags != nil {
		if tags, ok := goType.FieldByName(b.Tags.Field); ok {
			out.tags = tags.Index
		}
	}
	found := b.Find(fields, goType)
	for i := range fields {
		f := Field{index: found[i]}
		var holder reflect.Type
		if f.index != nil {
			holder = goType.FieldByIndex(f.index).Type
		}
		if err := b.field(&f, &fields[i], holder); err != nil {
			return nil, fmt.Errorf("%s: %w", fields[i].Name, err)
		}
		out.Fields = append(out.Fields, f)
	}
	return out, nil
}

func (b *Binder) mapped(out *Layout, fields []SchemaField) (err error) {
	var key, value Field
	if err = b.field(&key, &fields[0], out.GoType.Key()); err != nil {
		return err
	}
	out.Fields = []Field{key}
	if held := structOf(out.GoType.Elem()); held != nil && out.GoType.Elem().Kind() != reflect.Slice {
		if b.Find(fields[:1], held)[0] == nil { // Otherwise the value has the key, too.
			fields = fields[1:]
		}
		out.rest, err = b.layout(fields, held)
		return err
	}
	if len(fields) < 2 {
		return fmt.Errorf("%s has a map for %s alone", b.Short, fields[0].Name)
	}
	// Of several fields the first that fits is what the library keeps. The others are not in all versions.
	bound := false
	for i := range fields[1:] {
		var holder reflect.Type
		value = Field{}
		if !bound && holds(out.GoType.Elem(), &fields[i+1]) {
			bound, holder, value.index = true, out.GoType.Elem(), []int{0}
		}
		if err = b.field(&value, &fields[i+1], holder); err != nil {
			return err
		}
		out.Fields = append(out.Fields, value)
	}
	return nil
}

// holds tells whether a value of a type of Go can be that of a field.
func holds(goType reflect.Type, s *SchemaField) bool {
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	zero := reflect.Zero(goType)
	kind := goType.Kind()
	switch {
	case kind == reflect.Map || kind == reflect.Slice && goType.Elem().Kind() != reflect.Uint8:
		return strings.HasPrefix(s.Type, "[]")
	case kind == reflect.Slice:
		return s.Type == "bytes"
	case kind == reflect.Array:
		return s.Type == "uuid"
	case zero.CanInt():
		return strings.HasPrefix(s.Type, "int")
	case zero.CanFloat():
		return strings.HasPrefix(s.Type, "float")
	}
	return s.Type == kind.String() // A string, a bool.
}

// alone binds a value of the library to the first field of a struct that is of its type.
func (b *Binder) alone(out *Layout, fields []SchemaField) error {
	bound := false
	for i := range fields {
		var f Field
		var holder reflect.Type
		if !bound && holds(out.GoType, &fields[i]) {
			bound, f.index, holder = true, []int{0}, out.GoType
		}
		if err := b.field(&f, &fields[i], holder); err != nil {
			return err
		}
		out.Fields = append(out.Fields, f)
	}
	if !bound {
		return fmt.Errorf("%s has %s for a struct", b.Short, out.GoType)
	}
	return nil
}

// structOf is the struct below pointers and slices, or nil.
func structOf(goType reflect.Type) reflect.Type {
	for goType.Kind() == reflect.Slice || goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if goType.Kind() == reflect.Struct {
		return goType
	}
	return nil
}

func (b *Binder) field(f *Field, s *SchemaField, holder reflect.Type) (err error) {
	f.Name = strings.ToLower(s.Name[:1]) + s.Name[1:]
	f.typeName, f.array = strings.CutPrefix(s.Type, "[]")
	none := Versions{1, 0}
	if f.tagged, err = ParseVersions(s.TaggedVersions, none); err != nil {
		return err
	}
	// A tagged field may leave its versions out: they are those in which it is tagged.
	if f.versions, err = ParseVersions(s.Versions, f.tagged); err != nil {
		return err
	}
	if f.nullable, err = ParseVersions(s.NullableVersions, none); err != nil {
		return err
	}
	children := s.Fields
	if children == nil {
		children = b.commons[f.typeName]
	}
	if children != nil && holder != nil {
		inner := holder
		switch {
		case inner.Kind() == reflect.Map:
		case structOf(inner) != nil:
			inner = structOf(inner)
		case f.array && inner.Kind() == reflect.Slice:
			inner = inner.Elem()
		}
		if f.inner, err = b.layout(children, inner); err != nil {
			return err
		}
	}
	f.absent, f.byTag = absentValue(s, f)
	return nil
}

// absentValue is the value of a tagged field that is not on the wire, in the JSON of the protocol.
func absentValue(s *SchemaField, f *Field) (any, bool) {
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

// Has tells whether the layout has a field of a name.
func (l *Layout) Has(name string) bool {
	for _, f := range l.Fields {
		if f.Name == name {
			return true
		}
	}
	return false
}

// Check is an error where the library has no field for one that a version has.
func (l *Layout) Check(version int16) error { return l.check(version, "") }

func (l *Layout) check(version int16, path string) error {
	for i := range l.Fields {
		f := &l.Fields[i]
		if !f.versions.Has(version) || f.tagged.Has(version) { // A tagged one may be absent.
			continue
		}
		isKey := i == 0 && l.GoType.Kind() == reflect.Map
		if f.index == nil && !isKey && l.rest == nil {
			return &Skipped{l.binder.Short + " has no field for " + path + f.Name}
		}
		if f.inner != nil {
			if err := f.inner.check(version, path+f.Name+"."); err != nil {
				return err
			}
		}
	}
	if l.rest != nil {
		return l.rest.check(version, path)
	}
	return nil
}
