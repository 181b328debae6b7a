// The Go peer: franz-go and hash/crc32, timed on request.
//
// A request is a line of tab-separated fields: operation, message, version, file,
// milliseconds to warm up, milliseconds to measure, microseconds a round. The answer is a line of JSON: nanoseconds a
// call for each round, and a CRC-32C of what was produced, which the asker compares.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

const roundCountMin = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sink keeps the compiler from leaving out a call whose result nobody reads.
var sink int

// task is what one call does, how many records it is about, and the proof of its result.
type task struct {
	call        func()
	recordCount int
	check       uint32
}

type reply struct {
	Records int       `json:"records"`
	Bytes   int       `json:"bytes"`
	Check   uint32    `json:"check"`
	Rounds  []float64 `json:"rounds"`
}

func main() {
	versions := map[string]string{"go": strings.TrimPrefix(runtime.Version(), "go")}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if strings.HasPrefix(module.Path, "github.com/twmb/") {
				versions[strings.TrimPrefix(module.Path, "github.com/twmb/")] = module.Version
			}
		}
	}
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(map[string]any{"versions": versions})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := serve(strings.Split(lines.Text(), "\t"))
		if err != nil {
			_ = out.Encode(map[string]string{"error": err.Error()})
		} else {
			_ = out.Encode(answer)
		}
	}
}

func serve(fields []string) (*reply, error) {
	if len(fields) != 7 {
		return nil, fmt.Errorf("a request has seven fields, this one %d", len(fields))
	}
	var numbers [4]int
	for i, at := range []int{2, 4, 5, 6} {
		number, err := strconv.Atoi(fields[at])
		if err != nil {
			return nil, err
		}
		numbers[i] = number
	}
	data, err := os.ReadFile(fields[3])
	if err != nil {
		return nil, err
	}
	var work *task
	switch fields[0] {
	case "crc32c":
		work = &task{
			call:  func() { sink += int(crc32.Checksum(data, castagnoli)) },
			check: crc32.Checksum(data, castagnoli),
		}
	case "encode-batch":
		work, err = encodeBatch(data)
	case "decode-batch":
		work, err = decodeBatch(data)
	default:
		work, err = codec(fields[0], fields[1], int16(numbers[0]), data)
	}
	if err != nil {
		return nil, err
	}
	rounds := measure(work.call, numbers[1], numbers[2], numbers[3])
	return &reply{work.recordCount, len(data), work.check, rounds}, nil
}

// measure returns nanoseconds a call, one figure a round.
func measure(call func(), warmMs, measureMs, roundUs int) []float64 {
	begin, warmCalls := time.Now(), 0
	for time.Since(begin) < time.Duration(warmMs)*time.Millisecond || warmCalls == 0 {
		call()
		warmCalls++
	}
	callNs := float64(time.Since(begin).Nanoseconds()) / float64(warmCalls)
	calls := max(1, int(math.Ceil(float64(roundUs)*1e3/callNs)))
	var rounds []float64
	begin, whole := time.Now(), time.Duration(measureMs)*time.Millisecond
	for time.Since(begin) < whole || len(rounds) < roundCountMin {
		begin := time.Now()
		for range calls {
			call()
		}
		each := float64(time.Since(begin).Nanoseconds()) / float64(calls)
		rounds = append(rounds, math.Round(each*100)/100)
	}
	return rounds
}

// same returns the CRC-32C of bytes that must be those given.
func same(made, given []byte) (uint32, error) {
	for at := range min(len(made), len(given)) {
		if made[at] != given[at] {
			return 0, fmt.Errorf("other bytes from offset %d on", at)
		}
	}
	if len(made) != len(given) {
		return 0, fmt.Errorf("%d bytes, and %d were given", len(made), len(given))
	}
	return crc32.Checksum(made, castagnoli), nil
}
