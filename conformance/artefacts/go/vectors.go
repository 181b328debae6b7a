// Package vectors has golden vectors of the Kafka protocol, a file a message; the README says what is in one.
package vectors

import (
	"compress/gzip"
	"embed"
	"io"
	"io/fs"
	"sort"
	"strings"
)

// Version names the set.
const Version = "@VERSION@"

//go:embed vectors
var files embed.FS

// Names returns the names of the files, such as kafka/VoteRequest, in order.
func Names() []string {
	names, _ := fs.Glob(files, "vectors/*/*.json.gz")
	for at, name := range names {
		names[at] = strings.TrimSuffix(strings.TrimPrefix(name, "vectors/"), ".json.gz")
	}
	sort.Strings(names)
	return names
}

// Read returns a file as JSON text.
func Read(name string) ([]byte, error) {
	file, err := files.Open("vectors/" + name + ".json.gz")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(text)
}
