package harness

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Schema is what is read of one of Kafka's schemas.
type Schema struct {
	APIKey           *int16        `json:"apiKey"`
	Type             string        `json:"type"`
	Name             string        `json:"name"`
	ValidVersions    string        `json:"validVersions"`
	FlexibleVersions string        `json:"flexibleVersions"`
	CommonStructs    []SchemaField `json:"commonStructs"`
	Fields           []SchemaField `json:"fields"`
}

// SchemaField is one field of a schema, or a struct that fields share.
type SchemaField struct {
	Name             string          `json:"name"`
	Type             string          `json:"type"`
	Versions         string          `json:"versions"`
	NullableVersions string          `json:"nullableVersions"`
	TaggedVersions   string          `json:"taggedVersions"`
	Default          json.RawMessage `json:"default"`
	Fields           []SchemaField   `json:"fields"`
}

// Versions is a range, both ends included.
type Versions struct{ First, Last int16 }

// Has tells whether a version is in the range.
func (v Versions) Has(version int16) bool { return v.First <= version && version <= v.Last }

// ParseVersions reads "2", "1-3", "4+" and "none"; absent is as the schema language has it.
func ParseVersions(text string, absent Versions) (Versions, error) {
	switch {
	case text == "":
		return absent, nil
	case text == "none":
		return Versions{1, 0}, nil
	case strings.HasSuffix(text, "+"):
		first, err := strconv.ParseInt(strings.TrimSuffix(text, "+"), 10, 16)
		return Versions{int16(first), math.MaxInt16}, err
	}
	first, last, found := strings.Cut(text, "-")
	if !found {
		last = first
	}
	a, err := strconv.ParseInt(first, 10, 16)
	if err != nil {
		return Versions{}, err
	}
	b, err := strconv.ParseInt(last, 10, 16)
	return Versions{int16(a), int16(b)}, err
}

// load binds every schema below a directory that the library has a message for.
func load(root string, bind func(*Schema) (Message, error)) (map[string]Message, error) {
	catalogue := make(map[string]Message)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var schema Schema
		if err := json.Unmarshal(text, &schema); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		m, err := bind(&schema)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if m != nil {
			catalogue[schema.Name] = m
		}
		return nil
	})
	return catalogue, err
}
