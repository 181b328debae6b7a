// An adapter of harness protocol 1 over franz-go's kmsg: the JSON values of the protocol to and
// from the structs of kmsg, by reflection and by Kafka's schemas.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

const (
	protocol     = 1
	lineBytesMax = 16 << 20
	module       = "github.com/twmb/franz-go/pkg/kmsg"
)

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
	ID      string   `json:"id"`
	Hex     *string  `json:"hex,omitempty"`
	Value   any      `json:"value,omitempty"`
	Error   *refusal `json:"error,omitempty"`
	Skipped *skipped `json:"skipped,omitempty"`
}

// refusal is an error reply: what kmsg, or a Go type, did not take.
type refusal struct {
	Class  string `json:"class"`
	Path   string `json:"path,omitempty"`
	Detail string `json:"detail"`
}

func (r *refusal) Error() string { return r.Detail }

// skipped is what kmsg has no means for.
type skipped struct {
	Reason string `json:"reason"`
}

func (s *skipped) Error() string { return s.Reason }

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "give the directory of Kafka's schemas")
		os.Exit(2)
	}
	catalogue, err := load(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := serve(catalogue, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(catalogue map[string]*message, in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	replies := bufio.NewWriterSize(out, 1<<16)
	var watched watch
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
			err = encoder.Encode(hello(catalogue))
		default:
			err = encoder.Encode(answer(catalogue, &watched, &asked))
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

func hello(catalogue map[string]*message) map[string]any {
	messages := make(map[string]string, len(catalogue))
	for name, m := range catalogue {
		if first, last, ok := m.served(); ok {
			messages[name] = fmt.Sprintf("%d-%d", first, last)
		}
	}
	return map[string]any{
		"protocol": protocol, "name": "franz-go", "language": "go", "version": version(),
		"spec": "kafka", "messages": messages, "notes": "kmsg, by reflection",
	}
}

// version of kmsg, as the linker saw it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "unknown"
}

func answer(catalogue map[string]*message, watched *watch, asked *request) (given reply) {
	given.ID = asked.ID
	value, bytes, err := perform(catalogue, watched, asked)
	switch err := err.(type) {
	case nil:
		if value != nil {
			given.Value = value
		} else {
			text := hex.EncodeToString(bytes)
			given.Hex = &text
		}
	case *skipped:
		given.Skipped = err
	case *refusal:
		given.Error = err
	default:
		given.Error = &refusal{Class: "refused", Detail: err.Error()}
	}
	return given
}

func perform(
	catalogue map[string]*message, watched *watch, asked *request,
) (map[string]any, []byte, error) {
	if asked.Spec != "" && asked.Spec != "kafka" {
		return nil, nil, &skipped{"kmsg has only the messages of Kafka's releases"}
	}
	m := catalogue[asked.Message]
	if m == nil {
		return nil, nil, &refusal{Class: "unknown_message", Detail: "kmsg has no " + asked.Message}
	}
	if err := m.check(asked.Version); err != nil {
		return nil, nil, err
	}
	switch asked.Cmd {
	case "encode":
		bytes, err := m.encode(asked.Version, asked.Value)
		return nil, bytes, err
	case "decode":
		bytes, err := hex.DecodeString(asked.Hex)
		if err != nil {
			return nil, nil, err
		}
		value, err := watched.decode(m, asked.Version, bytes)
		return value, nil, err
	}
	return nil, nil, &refusal{Class: "refused", Detail: "no such command: " + asked.Cmd}
}
