// A Raft node for the simulator of kraftspec: static voters, no snapshots, no pre-votes. It was
// written from docs/node-harness.md alone, speaks the lowest versions, and syncs each write at once.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"math/rand"
	"os"
)

const (
	never, nobody                                 = int64(math.MaxInt64), int32(-1)
	noError, notLeader, fencedEpoch, unknownEpoch = int16(0), int16(6), int16(74), int16(75)

	unattached, candidate, leader, follower, resigned = int8(0), int8(2), int8(3), int8(4), int8(5)
	down, up, shutDown, noPower, failed               = int8(0), int8(1), int8(2), int8(3), int8(4)

	fetchKey, voteKey, beginKey, endKey = int16(1), int16(52), int16(53), int16(54)
	fetchWaitMs                         = int32(500)
	controlBatch                        = int16(0x20)
)

// Commands.
const (
	hello, define, start, tick          = int8(1), int8(2), int8(5), int8(6)
	request, reply, fail, appendRecords = int8(7), int8(8), int8(9), int8(10)
	resign, shutdown, powerAfter        = int8(13), int8(14), int8(16)
	kill, powerLoss, read, forget       = int8(18), int8(19), int8(21), int8(22)
)

// Events.
const (
	welcome, persisted, appended, truncated, flushed = int8(64), int8(65), int8(66), int8(67), int8(68)
	highWatermark, committed, toldLeader             = int8(73), int8(74), int8(76)
	sent, answered, took, refused                    = int8(77), int8(78), int8(80), int8(81)
	recovered, readLog, fatal, state                 = int8(84), int8(85), int8(87), int8(88)
)

var (
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
	noDirectory = [16]byte{}
	topicID     = [16]byte{15: 1}
	topic       = "__cluster_metadata"
	nodes       = map[key]*node{}
	out         []byte // The frame that is being written.
)

type key struct{ run, id int32 }

type leadership struct{ epoch, leaderID int32 }

type batch struct {
	end   int64
	epoch int32
	data  []byte
}

// A fetch that came, and may have to wait.
type fetch struct {
	token, offset, untilUs                int64
	replicaID, epoch, lastEpoch, maxBytes int32
}

// What a node knows of another one, in the role that it has.
type peer struct {
	id                            int32
	isDone, hasGranted, hasDenied bool
	correlation, timeoutUs        int64 // Of the request under way; 0: there is none.
	nextUs                        int64 // When it may be asked again.
	end, toldHighWatermark        int64
	fetchedUs                     int64
}

type node struct {
	key
	clusterID                                             string
	portBase, fetchMaxBytes                               int32
	voters, servers                                       []int32
	electionUs, fetchUs, backoffMaxUs, requestUs, retryUs int64

	// The disk.
	log                      []batch
	durableEnd               int64
	epoch, leaderID, votedID int32

	// The memory.
	status, role              int8
	effectsLeft               int32 // Until the power goes; -1: it stays.
	nowUs, timerUs, searchUs  int64
	correlation               int64
	highWatermark, epochStart int64
	random                    *rand.Rand
	peers                     []*peer
	waiting                   []fetch
	successors                []int32
	told                      leadership // What the state machine was told.
	isLost                    bool       // An observer whose leader is silent.
}

// ---- commands ----------------------------------------------------------------------------------

func (n *node) start(seed int64) {
	end, _ := n.last()
	crc := crc32.Checksum(n.logBytes(), castagnoli)
	n.event(recovered, int64(0), end, n.durableEnd, crc, n.epoch, n.leaderID, n.votedID, noDirectory)
	n.status, n.role, n.random = up, unattached, rand.New(rand.NewSource(seed))
	n.highWatermark, n.correlation, n.timerUs, n.epochStart = -1, 0, 0, 0
	n.waiting, n.peers, n.told = nil, nil, leadership{0, nobody}
	if n.durableEnd < end { // After `kill`.
		n.flush()
	}
	switch n.leaderID {
	case n.id:
		n.resign()
	case nobody:
		n.become(unattached, n.epoch, nobody, n.votedID)
	default:
		n.become(follower, n.epoch, n.leaderID, n.votedID)
	}
}

// command carries out what names this node, and returns its next deadline.
func (n *node) command(code int8, r *reader) (deadlineUs int64) {
	deadlineUs = never
	defer func() {
		if thrown := recover(); thrown == noPower {
			n.status = noPower
		} else if thrown != nil {
			n.status = failed
			n.event(fatal, fmt.Sprint(thrown))
		}
	}()
	switch {
	case code == powerAfter:
		n.effectsLeft = r.int32()
	case code == kill:
		n.status, n.effectsLeft = down, -1
	case code == powerLoss:
		n.status, n.effectsLeft = down, -1
		kept := int(r.int32()) // So many batches of what was not synced.
		for _, one := range n.log {
			if one.end <= n.durableEnd {
				kept++
			}
		}
		n.log = n.log[:min(kept, len(n.log))]
		n.durableEnd, _ = n.last()
	case code == read:
		n.event(readLog, int64(0), n.logBytes())
	case code == start:
		n.nowUs = r.int64()
		n.start(r.int64())
	case n.status == up && code >= tick && code <= shutdown:
		n.nowUs = r.int64()
		n.input(code, r)
	}
	if n.status == up {
		deadlineUs = n.poll()
	}
	return deadlineUs
}

func (n *node) input(code int8, r *reader) {
	switch code {
	case tick:
		n.tick()
	case request:
		token, apiKey, _ := r.int64(), r.int16(), r.int16()
		body := reader{r.bytes()}
		switch apiKey {
		case fetchKey:
			n.onFetch(token, &body)
		case voteKey:
			n.onVote(token, &body)
		default:
			n.onLeaderSays(token, apiKey, &body)
		}
	case reply, fail:
		n.replied(code, r)
	case appendRecords:
		id, epoch, values := r.int64(), r.int32(), [][]byte{}
		for count := r.int32(); count > 0; count-- {
			values = append(values, r.bytes())
		}
		if n.role != leader || epoch != n.epoch || n.told != (leadership{epoch, n.id}) {
			n.event(refused, id, "does not lead this epoch")
			break
		}
		base, _ := n.last()
		n.event(took, id, base, base+int64(len(values))-1)
		n.add(0, -1, nil, values...)
	case resign, shutdown:
		if n.role == leader && (code == shutdown || r.int32() == n.epoch) {
			n.resign()
			n.poll() // EndQuorumEpoch leaves before it is gone.
		}
		if code == shutdown {
			n.status = shutDown
		}
	}
}

func makeNode(k key, r *reader) *node {
	r.take(16) // The directory id: static voters have none.
	n := &node{key: k, clusterID: string(r.bytes()), portBase: r.int32(), effectsLeft: -1}
	r.take(1 + 1)
	n.voters, n.servers = r.int32s(), r.int32s()
	n.electionUs, n.fetchUs, n.backoffMaxUs, n.requestUs, n.retryUs = r.int64(), r.int64(), r.int64(), r.int64(), r.int64()
	r.take(8)
	n.fetchMaxBytes, n.leaderID, n.votedID = r.int32(), nobody, nobody
	if len(n.servers) == 0 {
		n.servers = n.voters
	}
	return n
}

func handle(code int8, k key, r *reader) {
	switch code {
	case hello:
		versions := []int32{int32(fetchKey), 13, int32(voteKey), 0, int32(beginKey), 0, int32(endKey), 0}
		out = put(out, welcome, key{}, put(nil, int16(1), "toy", "1", versions, int32(0)))
		return
	case forget:
		maps.DeleteFunc(nodes, func(one key, _ *node) bool { return one.run == k.run })
		return
	case define:
		nodes[k] = makeNode(k, r)
	}
	n := nodes[k]
	deadlineUs := n.command(code, r)
	role, known := n.role, n.highWatermark
	if n.status != up {
		role, known = unattached, -1
	}
	end, _ := n.last()
	n.event(state, n.status, role, n.epoch, n.leaderID, n.votedID, noDirectory,
		known, int64(0), end, n.durableEnd, deadlineUs, n.isVoter(n.id), int16(0))
}

func main() {
	in, size := bufio.NewReader(os.Stdin), [4]byte{}
	for {
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		out = out[:0]
		for commands := (reader{frame}); len(commands.data) > 0; {
			code, k := commands.int8(), key{commands.int32(), commands.int32()}
			handle(code, k, &reader{commands.bytes()})
		}
		os.Stdout.Write(put(nil, out))
	}
}
