package harness

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// The key of the unknown tagged fields of a struct.
const unknownTags = "_unknownTaggedFields"

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

// noTime is a time that is not known, in Kafka's fields.
const noTime = -1

// Time is a field of milliseconds as a time; the zero time is not known.
func Time(millis int64) time.Time {
	if millis == noTime {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// Millis is a time as a field of milliseconds.
func Millis(when time.Time) int64 {
	if when.IsZero() {
		return noTime
	}
	return when.UnixMilli()
}

func isBytes(goType reflect.Type) bool {
	return goType.Kind() == reflect.Slice && goType.Elem().Kind() == reflect.Uint8
}

// Wrong is the refusal of a value.
func Wrong(class, path, format string, arguments ...any) error {
	return &Refusal{Class: class, Path: path, Detail: fmt.Sprintf(format, arguments...)}
}

// at is the field of a struct, also of one that the library keeps to itself.
func at(owner reflect.Value, index []int) reflect.Value {
	if owner.Kind() != reflect.Struct {
		return owner // The one field that there is.
	}
	field := owner.FieldByIndex(index)
	if field.CanSet() {
		return field
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

// Set fills a struct of the library with a JSON value.
func (l *Layout) Set(to reflect.Value, version int16, value any) error {
	return l.set(to, version, value, "")
}

func asObject(value any, path string) (map[string]any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, Wrong("wrong_type", path, "a struct is an object, not %T", value)
	}
	return object, nil
}

func (l *Layout) set(to reflect.Value, version int16, value any, path string) error {
	object, err := asObject(value, path)
	if err != nil {
		return err
	}
	if path != "" {
		path += "."
	}
	for i := range l.Fields {
		f := &l.Fields[i]
		given, ok := object[f.Name]
		switch {
		case ok && f.index != nil: // What a version lacks is given, too: the library is to judge it.
			if err := f.set(to, version, given, path+f.Name, l); err != nil {
				return err
			}
		case ok && fmt.Sprint(given) != fmt.Sprint(f.absent):
			return &Skipped{l.binder.Short + " has no field for " + path + f.Name}
		case !ok && f.versions.Has(version) && !f.tagged.Has(version):
			return Wrong("missing_field", path+f.Name, "there is no %s", f.Name)
		case !ok && f.index != nil: // Go's zero is the default of most fields.
			if number, isNumber := f.absent.(int64); isNumber && number != 0 {
				absent := json.Number(strconv.FormatInt(number, 10))
				if err := f.set(to, version, absent, path+f.Name, l); err != nil {
					return err
				}
			}
		}
	}
	unknown, _ := object[unknownTags].([]any)
	return l.setTags(to, unknown, path)
}

func (l *Layout) setTags(to reflect.Value, unknown []any, path string) error {
	if len(unknown) > 0 && l.tags == nil {
		return &Skipped{l.binder.Short + " keeps no unknown tagged fields of " + l.GoType.Name()}
	}
	before := int64(-1)
	for _, entry := range unknown {
		pair := entry.(map[string]any)
		number, err := strconv.ParseUint(string(pair["tag"].(json.Number)), 10, 32)
		if err != nil {
			return Wrong("integer_out_of_range", path+unknownTags, "%v", err)
		}
		if int64(number) <= before {
			return &Skipped{l.binder.Short + " keeps unknown tagged fields in a map, each once"}
		}
		before = int64(number)
		data, err := hex.DecodeString(pair["hex"].(string))
		if err != nil {
			return Wrong("wrong_type", path+unknownTags, "%v", err)
		}
		l.binder.Tags.Set(at(to, l.tags).Addr().Interface(), uint32(number), data)
	}
	return nil
}

// setEntry puts one element of an array into the map that the library has for the array.
func (l *Layout) setEntry(to reflect.Value, version int16, value any, path string) error {
	object, err := asObject(value, path)
	if err != nil {
		return err
	}
	key := reflect.New(l.GoType.Key()).Elem()
	held := reflect.New(l.GoType.Elem()).Elem()
	for i := range l.Fields {
		f := &l.Fields[i]
		given, ok := object[f.Name]
		where := path + "." + f.Name
		switch {
		case !ok && f.versions.Has(version) && !f.tagged.Has(version):
			return Wrong("missing_field", where, "there is no %s", f.Name)
		case !ok:
		case i == 0:
			err = f.fill(key, version, given, where, l)
		case f.index != nil:
			err = f.fill(held, version, given, where, l)
		case fmt.Sprint(given) != fmt.Sprint(f.absent):
			err = &Skipped{l.binder.Short + " has no field for " + where}
		}
		if err != nil {
			return err
		}
	}
	if l.rest == nil {
		unknown, _ := object[unknownTags].([]any)
		err = l.setTags(to, unknown, path)
	} else {
		target := held
		if held.Kind() == reflect.Pointer {
			held.Set(reflect.New(held.Type().Elem()))
			target = held.Elem()
		}
		err = l.rest.set(target, version, value, path)
	}
	to.SetMapIndex(key, held)
	return err
}

func (f *Field) set(owner reflect.Value, version int16, value any, path string, l *Layout) error {
	return f.fill(at(owner, f.index), version, value, path, l)
}

func (f *Field) fill(to reflect.Value, version int16, value any, path string, l *Layout) error {
	switch {
	case f.typeName == "records" && !isBytes(to.Type()):
		return &Skipped{l.binder.Short + " writes records itself, from what it has for each"}
	case value == nil && f.versions.Has(version) && !f.nullable.Has(version):
		// A slice of Go is the same where it is nil and where it is empty.
		return Wrong("null_for_non_nullable", path, "there is no null in version %d", version)
	case value == nil && to.Kind() == reflect.Struct:
		return Wrong("null_for_non_nullable", path, "%s holds no null in %s", l.binder.Short, to.Type())
	case value == nil: // A library without pointers to strings takes an empty one for null.
		to.SetZero()
		return nil
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if !f.array {
		return f.setOne(to, version, value, path)
	}
	list, ok := value.([]any)
	if !ok {
		return Wrong("wrong_type", path, "an array is a list, not %T", value)
	}
	if to.Kind() == reflect.Map {
		if len(list) > 1 {
			return &Skipped{l.binder.Short + " writes the entries of a map in no certain order"}
		}
		to.Set(reflect.MakeMap(to.Type()))
	} else {
		to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	}
	for i, element := range list {
		where := fmt.Sprintf("%s[%d]", path, i)
		if element == nil {
			return Wrong("null_for_non_nullable", where, "an element is not null")
		}
		var err error
		if to.Kind() == reflect.Map {
			err = f.inner.setEntry(to, version, element, where)
		} else {
			err = f.setOne(to.Index(i), version, element, where)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Field) setOne(to reflect.Value, version int16, value any, path string) error {
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if f.inner != nil {
		if defaults, ok := to.Addr().Interface().(interface{ Default() }); ok {
			defaults.Default()
		}
		return f.inner.set(to, version, value, path)
	}
	switch given := value.(type) {
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(given)
			return nil
		}
	case json.Number:
		return f.setNumber(to, string(given), path)
	case string:
		return f.setText(to, given, path)
	}
	return Wrong("wrong_type", path, "%T is no %s", value, f.typeName)
}

func (f *Field) setNumber(to reflect.Value, text, path string) error {
	bits := int(to.Type().Size()) * 8
	var err error
	switch {
	case to.CanFloat():
		var number float64
		if number, err = strconv.ParseFloat(text, 64); err == nil {
			to.SetFloat(number)
		}
	case to.Type() == durationType:
		var number int64
		if number, err = strconv.ParseInt(text, 10, 32); err == nil {
			to.SetInt(number * int64(time.Millisecond))
		}
	case to.Type() == timeType:
		var number int64
		if number, err = strconv.ParseInt(text, 10, 64); err == nil {
			to.Set(reflect.ValueOf(Time(number)))
		}
	case strings.ContainsAny(text, ".eE") || !(to.CanInt() || to.CanUint()):
		return Wrong("wrong_type", path, "%s is no %s", text, f.typeName)
	case to.CanInt():
		var number int64
		if number, err = strconv.ParseInt(text, 10, bits); err == nil {
			to.SetInt(number)
		}
	default:
		var number uint64
		if number, err = strconv.ParseUint(text, 10, bits); err == nil {
			to.SetUint(number)
		}
	}
	if err != nil {
		return Wrong("integer_out_of_range", path, "%v", err)
	}
	return nil
}

func (f *Field) setText(to reflect.Value, text, path string) error {
	switch {
	case f.typeName == "string" && to.Kind() == reflect.String:
		to.SetString(text)
		return nil
	case f.typeName == "float64" && strings.HasPrefix(text, "0x"):
		if pattern, err := strconv.ParseUint(text[2:], 16, 64); err == nil {
			to.SetFloat(math.Float64frombits(pattern))
			return nil
		}
	case f.typeName == "uuid":
		if data, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(data) == 16 {
			reflect.Copy(to, reflect.ValueOf(data))
			return nil
		}
	case f.typeName == "bytes" || f.typeName == "records":
		if data, err := base64.StdEncoding.DecodeString(text); err == nil {
			to.SetBytes(data)
			return nil
		}
	}
	return Wrong("wrong_type", path, "%.40q is no %s", text, f.typeName)
}
