//go:build later

// What sarama has only since it is IBM's.
package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"reflect"
	"time"

	"github.com/IBM/sarama"
)

func init() {
	handlers["decode OffsetFetchResponse v6"] = offsetFetch
	handlers["encode ElectLeadersRequest v1"] = electLeaders
	handlers["encode FetchResponse v12"] = fetchResponse
}

func offsetFetch(asked request) (object, error) {
	body, err := hex.DecodeString(asked.Hex)
	if err != nil {
		return nil, err
	}
	var read *sarama.OffsetFetchResponse
	_, err = exchange(body, 1, func(broker *sarama.Broker) (err error) {
		read, err = broker.FetchOffset(&sarama.OffsetFetchRequest{Version: 6, ConsumerGroup: "g"})
		return err
	})
	if err != nil {
		return nil, err
	}
	topics := []object{}
	for name, blocks := range read.Blocks {
		partitions := []object{}
		for index, block := range blocks {
			partitions = append(partitions, object{
				"partitionIndex": index, "committedOffset": block.Offset,
				"committedLeaderEpoch": block.LeaderEpoch, "metadata": block.Metadata,
				"errorCode": int16(block.Err),
			})
		}
		topics = append(topics, object{"name": name, "partitions": partitions})
	}
	return object{"value": object{
		"throttleTimeMs": read.ThrottleTimeMs, "topics": topics, "errorCode": int16(read.Err),
	}}, nil
}

func electLeaders(asked request) (object, error) {
	var value struct {
		ElectionType    int8 `json:"electionType"`
		TopicPartitions []struct {
			Topic      string  `json:"topic"`
			Partitions []int32 `json:"partitions"`
		} `json:"topicPartitions"`
		TimeoutMs int32 `json:"timeoutMs"`
	}
	if err := json.Unmarshal(asked.Value, &value); err != nil {
		return nil, err
	}
	elect := &sarama.ElectLeadersRequest{
		Version: 1, Type: sarama.ElectionType(value.ElectionType),
		TimeoutMs: value.TimeoutMs, TopicPartitions: map[string][]int32{},
	}
	for _, topic := range value.TopicPartitions {
		elect.TopicPartitions[topic.Topic] = topic.Partitions
	}
	// ElectLeadersResponse v1 of nothing: the reply only ends the wait.
	frame, err := exchange(make([]byte, 10), 0, func(broker *sarama.Broker) error {
		_, _ = broker.ElectLeaders(elect)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// A broker reads header v1 where the version is not flexible: api key, version,
	// correlation id, client id; the body begins right behind it.
	clientID := int(binary.BigEndian.Uint16(frame[8:10]))
	return object{"hex": hex.EncodeToString(frame[10+clientID:])}, nil
}

type silent struct{}

func (silent) Error(args ...any)                 { panic(fmt.Sprint(args...)) }
func (silent) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (silent) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (silent) Helper()                           {}

func fetchResponse(asked request) (object, error) {
	var value struct {
		Responses []struct {
			Topic      string `json:"topic"`
			Partitions []struct {
				PartitionIndex                                  int32
				HighWatermark, LastStableOffset, LogStartOffset int64
				PreferredReadReplica                            int32
				DivergingEpoch, CurrentLeader                   json.RawMessage
			} `json:"partitions"`
		} `json:"responses"`
	}
	if err := json.Unmarshal(asked.Value, &value); err != nil {
		return nil, err
	}
	response := &sarama.FetchResponse{
		Version: 12, Blocks: map[string]map[int32]*sarama.FetchResponseBlock{},
	}
	for _, topic := range value.Responses {
		response.Blocks[topic.Topic] = map[int32]*sarama.FetchResponseBlock{}
		for _, part := range topic.Partitions {
			block := &sarama.FetchResponseBlock{
				HighWaterMarkOffset: part.HighWatermark, LastStableOffset: part.LastStableOffset,
				LogStartOffset: part.LogStartOffset, PreferredReadReplica: part.PreferredReadReplica,
			}
			for name, given := range map[string]json.RawMessage{
				"DivergingEpoch": part.DivergingEpoch, "CurrentLeader": part.CurrentLeader,
			} {
				if err := setStruct(block, name, given); err != nil {
					return nil, err
				}
			}
			response.Blocks[topic.Topic][part.PartitionIndex] = block
		}
	}
	broker := sarama.NewMockBroker(silent{}, 1)
	defer broker.Close()
	broker.Returns(response)
	conn, err := net.DialTimeout("tcp", broker.Addr(), 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Fetch v12 of nothing, after header v2: the reply is what counts.
	ask, _ := hex.DecodeString("0001000c0000000700016700" +
		"ffffffff" + "00000000" + "00000000" + "00000000" + "00" + "00000000" + "ffffffff" +
		"01" + "01" + "01" + "00")
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(ask))), ask...)); err != nil {
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	frame, err := readFrame(conn)
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	return object{"hex": hex.EncodeToString(frame[5:])}, nil // Correlation id and no tags.
}

// setStruct sets a field that not every release has.
func setStruct(block *sarama.FetchResponseBlock, name string, given json.RawMessage) error {
	if given == nil {
		return nil
	}
	field := reflect.ValueOf(block).Elem().FieldByName(name)
	if !field.IsValid() {
		return fmt.Errorf("this release has no %s", name)
	}
	made := reflect.New(field.Type().Elem())
	field.Set(made)
	return json.Unmarshal(given, made.Interface())
}
