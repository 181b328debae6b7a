// Your codec behind the harness protocol: put it in the place of the walk in encode and decode.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

type object = map[string]any

var hello = object{
	"protocol": 1,
	"name":     "my-codec",
	"language": "go",
	"version":  "0.1.0",
	"spec":     "kafka/4.4.0",
	"messages": ranges(), // What you serve: {"VoteRequest": "0-2"}
}

// encode returns the bytes of a message, or any error to refuse it.
func encode(message string, version int, value any) ([]byte, error) {
	return walkEncode(message, version, value) // Your codec goes here.
}

// decode returns what the bytes hold, or any error to refuse them.
func decode(message string, version int, data []byte) (any, error) {
	return walkDecode(message, version, data) // Your codec goes here.
}

type request struct {
	Cmd, ID, Message, Hex string
	Spec                  *string
	Version               int
	Value                 any
}

func answer(asked request) (reply object) {
	reply = object{"id": asked.ID}
	refuse := func(detail any) {
		reply["error"] = object{"class": "refused", "detail": fmt.Sprint(detail)}
	}
	defer func() {
		if failure := recover(); failure != nil {
			refuse(failure)
		}
	}()
	if asked.Spec != nil {
		reply["skipped"] = object{"reason": "only the messages of Apache Kafka are served"}
	} else if asked.Cmd == "encode" {
		if data, err := encode(asked.Message, asked.Version, asked.Value); err != nil {
			refuse(err)
		} else {
			reply["hex"] = hex.EncodeToString(data)
		}
	} else if data, err := hex.DecodeString(asked.Hex); err != nil {
		refuse(err)
	} else if value, err := decode(asked.Message, asked.Version, data); err != nil {
		refuse(err)
	} else {
		reply["value"] = value
	}
	return reply
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout) // Writes a line, at once.
	out.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		reader := json.NewDecoder(bytes.NewReader(line))
		reader.UseNumber() // Or int64 would be rounded.
		var asked request
		failure := reader.Decode(&asked)
		var reply object
		switch {
		case asked.Cmd == "stop":
			return
		case asked.Cmd == "hello":
			reply = hello
		case failure != nil:
			reply = object{"id": asked.ID, "error": object{"class": "refused", "detail": failure.Error()}}
		default:
			reply = answer(asked)
		}
		if out.Encode(reply) != nil {
			return
		}
	}
}
