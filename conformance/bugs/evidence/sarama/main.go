// A release of sarama behind harness protocol 1, for the messages of its bugs.
//
// Its codecs are not exported, so each test is put to the client itself over a loopback
// connection: bytes to decode are the reply that a broker gives, and bytes that were encoded are
// what arrives there.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type object = map[string]any

type request struct {
	Cmd     string          `json:"cmd"`
	ID      string          `json:"id"`
	Message string          `json:"message"`
	Version int16           `json:"version"`
	Hex     string          `json:"hex"`
	Value   json.RawMessage `json:"value"`
}

// What to do with a request, by command, message and version: what a reply is made of.
var handlers = map[string]func(request) (object, error){
	"decode ApiVersionsResponse v0": apiVersionsFallback,
	"decode ApiVersionsResponse v3": apiVersions,
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
			"protocol": 1, "name": "sarama", "language": "go", "version": os.Args[1],
			"spec": "kafka", "messages": object{},
		}
	}
	handler := handlers[fmt.Sprintf("%s %s v%d", asked.Cmd, asked.Message, asked.Version)]
	if handler == nil {
		return object{"id": asked.ID, "skipped": object{"reason": "not a message of its bugs"}}
	}
	reply, err := handler(asked)
	if err != nil {
		return object{"id": asked.ID, "error": object{"class": "refused", "detail": err.Error()}}
	}
	reply["id"] = asked.ID
	return reply
}

// The v0 form is the reply to a request of a version that the broker lacks.
func apiVersionsFallback(asked request) (object, error) {
	return apiVersionsOf(asked, false)
}

func apiVersions(asked request) (object, error) {
	return apiVersionsOf(asked, true)
}

func apiVersionsOf(asked request, hasThrottleTime bool) (object, error) {
	body, err := hex.DecodeString(asked.Hex)
	if err != nil {
		return nil, err
	}
	var read *sarama.ApiVersionsResponse
	_, err = exchange(body, 0, func(broker *sarama.Broker) (err error) {
		read, err = broker.ApiVersions(&sarama.ApiVersionsRequest{
			Version: 3, ClientSoftwareName: "kraftspec", ClientSoftwareVersion: "1",
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	keys := []object{}
	for _, key := range read.ApiKeys {
		keys = append(keys, object{
			"apiKey": key.ApiKey, "minVersion": key.MinVersion, "maxVersion": key.MaxVersion,
		})
	}
	value := object{"errorCode": read.ErrorCode, "apiKeys": keys}
	if hasThrottleTime {
		value["throttleTimeMs"] = read.ThrottleTimeMs
	}
	return object{"value": value}, nil
}

// exchange has a broker do one thing at a listener, which replies with body (after a response
// header of headerVersion), and returns the frame that arrived there, without its size.
func exchange(body []byte, headerVersion int, do func(*sarama.Broker) error) ([]byte, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	arrived := make(chan []byte, 1)
	go serve(listener, body, headerVersion, arrived)

	config := sarama.NewConfig()
	config.ApiVersionsRequest = false // Nothing goes over the wire but what is asked for.
	config.Version = sarama.V2_8_0_0
	config.Net.DialTimeout, config.Net.ReadTimeout = 5*time.Second, 5*time.Second
	broker := sarama.NewBroker(listener.Addr().String())
	if err := broker.Open(config); err != nil {
		return nil, err
	}
	defer broker.Close()
	err = do(broker)
	select {
	case frame := <-arrived:
		return frame, err
	case <-time.After(5 * time.Second):
		return nil, errors.Join(err, errors.New("nothing arrived at the broker"))
	}
}

func serve(listener net.Listener, body []byte, headerVersion int, arrived chan<- []byte) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	frame, err := readFrame(conn)
	if err != nil {
		return
	}
	arrived <- frame
	reply := append([]byte{}, frame[4:8]...) // The correlation id.
	if headerVersion == 1 {
		reply = append(reply, 0)
	}
	reply = append(reply, body...)
	_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...))
	_, _ = io.Copy(io.Discard, conn) // Until the client closes.
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
