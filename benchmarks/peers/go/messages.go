package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// message is what kmsg's requests and responses have in common.
type message interface {
	SetVersion(version int16)
	AppendTo(out []byte) []byte
	ReadFrom(data []byte) error
}

var factories = map[string]func() message{
	"MetadataResponse": func() message { return kmsg.NewPtrMetadataResponse() },
	"FetchResponse":    func() message { return kmsg.NewPtrFetchResponse() },
	"ProduceRequest":   func() message { return kmsg.NewPtrProduceRequest() },
	"VoteRequest":      func() message { return kmsg.NewPtrVoteRequest() },
}

func codec(operation, name string, version int16, data []byte) (*task, error) {
	factory, known := factories[name]
	if !known {
		return nil, fmt.Errorf("no message %s", name)
	}
	read := func() message {
		value := factory()
		value.SetVersion(version)
		if err := value.ReadFrom(data); err != nil {
			panic(err)
		}
		return value
	}
	value := read()
	buffer := value.AppendTo(nil)
	check, err := same(buffer, data)
	if err != nil {
		return nil, err
	}
	switch operation {
	case "encode-message":
		return &task{func() { sink += len(value.AppendTo(buffer[:0])) }, 0, check}, nil
	case "decode-message":
		return &task{func() { read() }, 0, check}, nil
	}
	return nil, fmt.Errorf("no operation %s", operation)
}
