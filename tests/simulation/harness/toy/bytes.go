// The bytes of the protocol and of Kafka.

package main

import "encoding/binary"

type (
	raw           []byte
	uvarint       uint64
	zigzag        int64
	kafkaString   string
	compactString string
)

// put appends values: strings, bytes and arrays as the protocol has them, and Kafka's own types.
func put(data []byte, values ...any) []byte {
	for _, value := range values {
		switch value := value.(type) {
		case raw:
			data = append(data, value...)
		case uvarint:
			data = binary.AppendUvarint(data, uint64(value))
		case zigzag:
			data = binary.AppendVarint(data, int64(value))
		case kafkaString:
			data = put(data, int16(len(value)), raw(value))
		case compactString:
			data = put(data, uvarint(len(value)+1), raw(value))
		case string:
			data = put(data, int32(len(value)), raw(value))
		case []byte:
			data = put(data, int32(len(value)), raw(value))
		case []int32:
			data, _ = binary.Append(put(data, int32(len(value))), binary.BigEndian, value)
		default:
			data, _ = binary.Append(data, binary.BigEndian, value)
		}
	}
	return data
}

type reader struct{ data []byte }

func (r *reader) take(size int) []byte {
	taken := r.data[:size]
	r.data = r.data[size:]
	return taken
}

func (r *reader) int8() int8           { return int8(r.take(1)[0]) }
func (r *reader) int16() int16         { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int32() int32         { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64         { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) bytes() []byte        { return r.take(int(r.int32())) }
func (r *reader) compactBytes() []byte { return r.take(max(r.uvarint()-1, 0)) }
func (r *reader) kafkaString() []byte  { return r.take(max(int(r.int16()), 0)) }

func (r *reader) uvarint() int {
	value, size := binary.Uvarint(r.data)
	r.take(size)
	return int(value)
}

func (r *reader) int32s() (values []int32) {
	for count := r.int32(); count > 0; count-- {
		values = append(values, r.int32())
	}
	return values
}
