// A release of franz-go's client behind harness protocol 1: what it does with a refusal of its
// ApiVersions request. The bytes to decode are a broker's reply on a loopback connection; they
// were understood if the client then asks in the highest version that they offer.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const patience = 5 * time.Second

type object = map[string]any

type request struct {
	Cmd     string `json:"cmd"`
	ID      string `json:"id"`
	Message string `json:"message"`
	Version int16  `json:"version"`
	Hex     string `json:"hex"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var asked request
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if asked.Cmd == "stop" {
			return
		}
		if err := out.Encode(answer(asked)); err != nil {
			os.Exit(1)
		}
	}
}

func answer(asked request) object {
	if asked.Cmd == "hello" {
		return object{
			"protocol": 1, "name": "franz-go-client", "language": "go", "version": os.Args[1],
			"spec": "kafka", "messages": object{},
		}
	}
	if asked.Cmd != "decode" || asked.Message != "ApiVersionsResponse" || asked.Version != 0 {
		return object{"id": asked.ID, "skipped": object{"reason": "not the message of its bug"}}
	}
	value, err := understand(asked.Hex)
	if err != nil {
		return object{"id": asked.ID, "error": object{"class": "refused", "detail": err.Error()}}
	}
	return object{"id": asked.ID, "value": value}
}

func understand(text string) (object, error) {
	body, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	offered := kmsg.NewPtrApiVersionsResponse()
	if err := offered.ReadFrom(body); err != nil {
		return nil, err
	}
	keys := []object{}
	var highest int16
	for _, key := range offered.ApiKeys {
		keys = append(keys, object{
			"apiKey": key.ApiKey, "minVersion": key.MinVersion, "maxVersion": key.MaxVersion,
		})
		highest = max(highest, key.MaxVersion)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	next := make(chan [2]int16, 1)
	go serve(listener, body, next)

	client, err := kgo.NewClient(kgo.SeedBrokers(listener.Addr().String()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() { _ = client.Ping(ctx) }()
	select {
	case asks := <-next:
		if asks != [2]int16{18, highest} {
			return nil, fmt.Errorf("its next request is of api %d in version %d, not ApiVersions "+
				"in version %d", asks[0], asks[1], highest)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("no further request within %s", patience)
	}
	return object{"errorCode": offered.ErrorCode, "apiKeys": keys}, nil
}

// serve answers the first request with body, and tells the api and the version of the second.
func serve(listener net.Listener, body []byte, next chan<- [2]int16) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	first, err := readFrame(conn)
	if err != nil {
		return
	}
	reply := append(append([]byte{}, first[4:8]...), body...)
	_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...))
	second, err := readFrame(conn)
	if err != nil {
		return
	}
	next <- [2]int16{
		int16(binary.BigEndian.Uint16(second[0:2])), int16(binary.BigEndian.Uint16(second[2:4])),
	}
}

func readFrame(conn io.Reader) ([]byte, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size))
	_, err := io.ReadFull(conn, frame)
	return frame, err
}
