// Package harness is what adapters of harness protocol 1 over Go libraries share: the protocol, and
// the JSON values to and from a library's structs, by reflection and by Kafka's schemas.
package harness

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"strings"
)

const (
	protocol     = 1
	lineBytesMax = 16 << 20
)

// Library is what is behind an adapter.
type Library struct {
	Name   string // of the adapter
	Short  string // what details call the library
	Module string // the Go module
	Notes  string
	// Messages by Kafka's name; those that are there before have no schema.
	Messages map[string]Message
}

// Message is one message at all the versions that the library has.
type Message interface {
	// Served is the range of versions for the hello; not ok where it is empty.
	Served() (first, last int16, ok bool)
	// Check says why a version is not put to the library: a *Skipped or a *Refusal.
	Check(version int16) error
	// Encode returns the bytes of a JSON value, whose numbers are json.Number.
	Encode(version int16, value any) ([]byte, error)
	// Decode returns the JSON value, and how many bytes the library left unread.
	Decode(version int16, data []byte) (value map[string]any, trailing int, err error)
}

type request struct {
	Cmd     string          `json:"cmd"`
	ID      string          `json:"id"`
	Spec    string          `json:"spec"`
	Message string          `json:"message"`
	Version int16           `json:"version"`
	Value   json.RawMessage `json:"value"`
	Hex     string          `json:"hex"`
}

type reply struct {
	ID       string   `json:"id"`
	Hex      *string  `json:"hex,omitempty"`
	Value    any      `json:"value,omitempty"`
	Trailing int      `json:"trailing,omitempty"`
	Error    *Refusal `json:"error,omitempty"`
	Skipped  *Skipped `json:"skipped,omitempty"`
}

// Refusal is an error reply: what the library, or a Go type, did not take.
type Refusal struct {
	Class  string `json:"class"`
	Path   string `json:"path,omitempty"`
	Detail string `json:"detail"`
}

func (r *Refusal) Error() string { return r.Detail }

// Skipped is what the library has no means for.
type Skipped struct {
	Reason string `json:"reason"`
}

func (s *Skipped) Error() string { return s.Reason }

// Main is the main function of an adapter. `bind` returns the message of the library that goes with
// one of Kafka's schemas, nil for none.
func Main(library Library, bind func(*Schema) (Message, error)) {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "give the directory of Kafka's schemas")
		os.Exit(2)
	}
	messages, err := load(os.Args[1], bind)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	maps.Copy(messages, library.Messages)
	library.Messages = messages
	if err := library.serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (l *Library) serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	replies := bufio.NewWriterSize(out, 1<<16)
	watched := watch{library: l.Short}
	watched.start(replies.Flush)
	encoder := json.NewEncoder(replies)
	encoder.SetEscapeHTML(false)
	for {
		line, err := readLine(lines)
		if err == io.EOF {
			return replies.Flush()
		}
		if err != nil {
			return err
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			return fmt.Errorf("not a request: %w", err)
		}
		switch asked.Cmd {
		case "stop":
			return replies.Flush()
		case "hello":
			err = encoder.Encode(l.hello())
		default:
			err = encoder.Encode(l.answer(&watched, &asked))
		}
		if err != nil {
			return err
		}
		if lines.Buffered() == 0 {
			if err := replies.Flush(); err != nil {
				return err
			}
		}
	}
}

func readLine(lines *bufio.Reader) ([]byte, error) {
	line, err := lines.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := append([]byte(nil), line...)
	for err == bufio.ErrBufferFull {
		if len(long) > lineBytesMax {
			return nil, fmt.Errorf("a line of more than %d bytes", lineBytesMax)
		}
		line, err = lines.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

func (l *Library) hello() map[string]any {
	messages := make(map[string]string, len(l.Messages))
	for name, m := range l.Messages {
		if first, last, ok := m.Served(); ok {
			messages[name] = fmt.Sprintf("%d-%d", first, last)
		}
	}
	return map[string]any{
		"protocol": protocol, "name": l.Name, "language": "go", "version": l.version(),
		"spec": "kafka", "messages": messages, "notes": l.Notes,
	}
}

// version of the library, as the linker saw it.
func (l *Library) version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == l.Module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "unknown"
}

func (l *Library) answer(watched *watch, asked *request) (given reply) {
	given.ID = asked.ID
	value, data, err := l.perform(watched, asked, &given.Trailing)
	switch err := err.(type) {
	case nil:
		if value != nil {
			given.Value = value
		} else {
			text := hex.EncodeToString(data)
			given.Hex = &text
		}
	case *Skipped:
		given.Skipped = err
	case *Refusal:
		given.Error = err
	default:
		given.Error = &Refusal{Class: "refused", Detail: err.Error()}
	}
	return given
}

func (l *Library) perform(
	watched *watch, asked *request, trailing *int,
) (map[string]any, []byte, error) {
	if asked.Spec != "" && asked.Spec != "kafka" {
		return nil, nil, &Skipped{l.Short + " has only the messages of Apache Kafka's releases"}
	}
	m := l.Messages[asked.Message]
	if m == nil {
		detail := l.Short + " has no " + asked.Message
		return nil, nil, &Refusal{Class: "unknown_message", Detail: detail}
	}
	if err := m.Check(asked.Version); err != nil {
		return nil, nil, err
	}
	switch asked.Cmd {
	case "encode":
		decoder := json.NewDecoder(bytes.NewReader(asked.Value))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, nil, err
		}
		data, err := watched.encode(m, asked.Version, value)
		return nil, data, err
	case "decode":
		data, err := hex.DecodeString(asked.Hex)
		if err != nil {
			return nil, nil, err
		}
		value, left, err := watched.decode(m, asked.Version, data)
		*trailing = left
		return value, nil, err
	}
	return nil, nil, &Refusal{Class: "refused", Detail: "no such command: " + asked.Cmd}
}
