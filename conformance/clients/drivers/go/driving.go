// Package driving has what the drivers in Go have in common: lines in, lines out.
package driving

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// Ask is a line to the driver.
type Ask struct {
	Verb        string            `json:"verb"`
	TimeoutMs   int               `json:"timeout_ms"`
	Bootstrap   string            `json:"bootstrap"`
	Idempotent  bool              `json:"idempotent"`
	Acks        *int              `json:"acks"`
	Security    map[string]string `json:"security"`
	Topic       string            `json:"topic"`
	Partition   int32             `json:"partition"`
	Values      []string          `json:"values"`
	Offset      int64             `json:"offset"`
	Count       int               `json:"count"`
	CreateTopic string            `json:"create_topic"`
}

// Driven is a client that is connected.
type Driven interface {
	Produce(ctx context.Context, a Ask) error
	Consume(ctx context.Context, a Ask) ([]string, error)
	Admin(ctx context.Context, a Ask) error
	Close() error
}

// Timeout returns the client's own time-out.
func (a Ask) Timeout() time.Duration {
	return time.Duration(a.TimeoutMs) * time.Millisecond
}

// RequiredAcks returns how many replicas must have a record.
func (a Ask) RequiredAcks() int {
	if a.Acks == nil {
		return -1
	}
	return *a.Acks
}

// TLS returns how to trust the authority that is named; nil where none is.
func (a Ask) TLS() (*tls.Config, error) {
	ca, ok := a.Security["ca"]
	if !ok {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}, nil
}

// Drive greets, then answers lines. The version is that of the module which was built in. A client
// that could not connect is made by the next line.
func Drive(client, module string, cannot []string, connect func(context.Context, Ask) (Driven, error)) {
	out := json.NewEncoder(os.Stdout)
	out.Encode(map[string]any{
		"protocol": 1, "client": client, "version": version(module), "language": "go", "cannot": append([]string{}, cannot...),
	})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	s := session{connect: connect}
	for in.Scan() {
		values, err := s.answer(in.Bytes())
		if err != nil {
			out.Encode(map[string]any{"ok": false, "error": err.Error()})
		} else {
			out.Encode(map[string]any{"ok": true, "values": append([]string{}, values...)})
		}
	}
}

type session struct {
	connect func(context.Context, Ask) (Driven, error)
	asked   Ask
	driven  Driven
}

func (s *session) answer(line []byte) ([]string, error) {
	var a Ask
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Timeout())
	defer cancel()
	if a.Verb == "close" {
		if s.driven == nil {
			return nil, nil
		}
		return nil, s.driven.Close()
	}
	if a.Verb == "connect" {
		s.asked, s.driven = a, nil
	}
	if s.driven == nil {
		made, err := s.connect(ctx, s.asked)
		if err != nil {
			return nil, err
		}
		s.driven = made
	}
	switch a.Verb {
	case "connect":
		return nil, nil
	case "produce":
		return nil, s.driven.Produce(ctx, a)
	case "consume":
		return s.driven.Consume(ctx, a)
	case "admin":
		return nil, s.driven.Admin(ctx, a)
	}
	return nil, fmt.Errorf("there is no verb %q", a.Verb)
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version[1:]
		}
	}
	return "unknown"
}
