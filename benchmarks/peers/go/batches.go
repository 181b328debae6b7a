package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where the length and the CRC of a record batch stand, and where what the CRC covers begins.
const (
	lengthAt  = 8
	crcAt     = 17
	coveredAt = 21
)

// encodeBatch takes the records out of a batch and writes them again, in the order of kgo's own
// producer (whose function is not public): the header, each record straight behind it, and then
// the CRC.
func encodeBatch(data []byte) (*task, error) {
	var header kmsg.RecordBatch
	if err := header.ReadFrom(data); err != nil {
		return nil, err
	}
	records := make([]kmsg.Record, header.NumRecords)
	rest := header.Records
	for i := range records {
		length, width := kbin.Varint(rest)
		end := width + int(length)
		if width == 0 || end > len(rest) {
			return nil, errors.New("a record ends behind the batch")
		}
		if err := records[i].ReadFrom(rest[:end]); err != nil {
			return nil, err
		}
		rest = rest[end:]
	}
	header.Records = nil
	buffer := make([]byte, 0, len(data))
	write := func() []byte {
		out := header.AppendTo(buffer[:0])
		for i := range records {
			records[i].Length = recordLength(&records[i])
			out = records[i].AppendTo(out)
		}
		binary.BigEndian.PutUint32(out[lengthAt:], uint32(len(out)-lengthAt-4))
		binary.BigEndian.PutUint32(out[crcAt:], crc32.Checksum(out[coveredAt:], castagnoli))
		return out
	}
	check, err := same(write(), data)
	return &task{func() { sink += len(write()) }, len(records), check}, err
}

// recordLength is the length of a record without the field that holds it.
func recordLength(record *kmsg.Record) int32 {
	size := 1 + kbin.VarlongLen(record.TimestampDelta64) + kbin.VarintLen(record.OffsetDelta)
	size += sized(record.Key) + sized(record.Value) + kbin.VarintLen(int32(len(record.Headers)))
	for i := range record.Headers {
		header := &record.Headers[i]
		size += kbin.VarintLen(int32(len(header.Key))) + len(header.Key) + sized(header.Value)
	}
	return int32(size)
}

func sized(part []byte) int {
	if part == nil {
		return kbin.VarintLen(-1)
	}
	return kbin.VarintLen(int32(len(part))) + len(part)
}

// decodeBatch is what kgo's consumer does with a fetched partition: the CRC, then a Record each.
func decodeBatch(data []byte) (*task, error) {
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = data
	var none kgo.ProcessFetchPartitionOpts
	read := func() []*kgo.Record {
		fetched, _ := kgo.ProcessFetchPartition(none, &partition, kgo.DefaultDecompressor(), nil)
		if fetched.Err != nil {
			panic(fetched.Err)
		}
		return fetched.Records
	}
	records := read()
	var crc uint32
	for _, record := range records {
		crc = chain(crc, record)
	}
	return &task{func() { sink += len(read()) }, len(records), crc}, nil
}

// chain carries the CRC on over all that a record says.
func chain(crc uint32, record *kgo.Record) uint32 {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:], uint64(record.Offset))
	binary.BigEndian.PutUint64(numbers[8:], uint64(record.Timestamp.UnixMilli()))
	crc = crc32.Update(crc, castagnoli, numbers[:])
	crc = crc32.Update(crc, castagnoli, record.Key)
	crc = crc32.Update(crc, castagnoli, record.Value)
	for _, header := range record.Headers {
		crc = crc32.Update(crc, castagnoli, []byte(header.Key))
		crc = crc32.Update(crc, castagnoli, header.Value)
	}
	return crc
}
