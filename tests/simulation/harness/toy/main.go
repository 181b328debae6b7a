// A Raft node for the simulator of kraftspec: static voters, no snapshots, no pre-votes. It was
// written from docs/node-harness.md alone, speaks the lowest versions, and syncs each write at once.
package main

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"math/rand"
	"os"
	"slices"
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

// ---- bytes -------------------------------------------------------------------------------------

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

// ---- events ------------------------------------------------------------------------------------

func (n *node) event(code int8, values ...any) {
	out = put(out, code, n.run, n.id, put(nil, values...))
}

// effect tells an event before which the power can go. Whoever calls it does the thing afterwards.
func (n *node) effect(code int8, values ...any) {
	if n.effectsLeft == 0 {
		panic(noPower)
	}
	n.effectsLeft = max(n.effectsLeft-1, -1)
	n.event(code, values...)
}

func (n *node) tell(epoch, leaderID int32) {
	if news := (leadership{epoch, leaderID}); n.told != news {
		n.effect(toldLeader, epoch, leaderID)
		n.told = news
	}
}

// ---- the disk ----------------------------------------------------------------------------------

// endOf returns the last epoch in the log that is not above this one, and where it ends.
func (n *node) endOf(epoch int32) (end int64, found int32) {
	for _, batch := range n.log {
		if batch.epoch <= epoch {
			end, found = batch.end, batch.epoch
		}
	}
	return end, found
}

func (n *node) last() (end int64, epoch int32) { return n.endOf(math.MaxInt32) }

func (n *node) logBytes() (data []byte) {
	for _, batch := range n.log {
		data = append(data, batch.data...)
	}
	return data
}

func (n *node) flush() {
	end, _ := n.last()
	n.effect(flushed, end)
	n.durableEnd = end
}

func (n *node) write(data []byte) {
	n.effect(appended, n.role == leader, data)
	for batches := (reader{data}); len(batches.data) > 0; {
		header := reader{batches.data}
		base, size, epoch := header.int64(), header.int32(), header.int32()
		header.take(1 + 4 + 2) // Magic, CRC, attributes.
		end := base + int64(header.int32()) + 1
		n.log = append(n.log, batch{end, epoch, batches.take(8 + 4 + int(size))})
	}
	n.flush()
}

// add writes a batch of a leader. A data record has no key, whose length is then -1.
func (n *node) add(attributes int16, keySize zigzag, key raw, values ...[]byte) {
	base, _ := n.last()
	nowMs, lastOffset := n.nowUs/1000, int32(len(values)-1)
	body := put(nil, attributes, lastOffset, nowMs, nowMs, int64(-1), int16(-1), int32(-1), lastOffset+1)
	for at, value := range values {
		record := put(nil, int8(0), zigzag(0), zigzag(at), keySize, key)
		record = put(record, zigzag(len(value)), raw(value), zigzag(0))
		body = put(body, zigzag(len(record)), raw(record))
	}
	crc := crc32.Checksum(body, castagnoli)
	n.write(put(nil, base, int32(4+1+4+len(body)), n.epoch, int8(2), crc, raw(body)))
	n.advance()
}

func (n *node) persist(epoch, leaderID, votedID int32) {
	if epoch != n.epoch || leaderID != n.leaderID || votedID != n.votedID {
		n.effect(persisted, epoch, leaderID, votedID, noDirectory)
		n.epoch, n.leaderID, n.votedID = epoch, leaderID, votedID
	}
}

// ---- roles -------------------------------------------------------------------------------------

func (n *node) isVoter(id int32) bool { return slices.Contains(n.voters, id) }
func (n *node) majority() int         { return len(n.voters)/2 + 1 }
func (n *node) drawElection() int64   { return n.nowUs + n.electionUs + n.random.Int63n(n.electionUs) }

func (n *node) peer(id int32) *peer {
	at := slices.IndexFunc(n.peers, func(p *peer) bool { return p.id == id })
	if at < 0 {
		at = len(n.peers)
		n.peers = append(n.peers, &peer{id: id, fetchedUs: n.nowUs})
	}
	return n.peers[at]
}

func (n *node) become(role int8, epoch, leaderID, votedID int32) {
	n.persist(epoch, leaderID, votedID)
	// A higher epoch alone puts off no election: who is unattached already keeps its timer.
	if role != unattached || n.role != unattached || n.timerUs == 0 {
		n.timerUs = n.drawElection()
	}
	n.role, n.peers, n.isLost, n.searchUs = role, nil, false, n.nowUs
	if role == follower {
		n.timerUs = n.nowUs + n.fetchUs
	} else if role == leader {
		n.timerUs = n.nowUs + n.fetchUs*3/2
	} else if !n.isVoter(n.id) {
		n.timerUs = never
	}
	n.serve() // Who waited for records learns that this node does not lead.
	if leaderID != n.id {
		n.tell(epoch, leaderID)
	}
}

// learn takes over what another node says of epoch and leader.
func (n *node) learn(epoch, leaderID int32) {
	isHigher, votedID := epoch > n.epoch, n.votedID
	if isHigher {
		votedID = nobody
	}
	isNews := isHigher || epoch == n.epoch && n.leaderID == nobody
	if isNews && leaderID != nobody && leaderID != n.id {
		n.become(follower, epoch, leaderID, votedID)
	} else if isHigher {
		n.become(unattached, epoch, nobody, nobody)
	}
}

func (n *node) countVotes() {
	granted, denied := []int32{n.id}, 0
	for _, peer := range n.peers {
		if peer.hasGranted {
			granted = append(granted, peer.id)
		} else if peer.hasDenied {
			denied++
		}
	}
	if len(granted) >= n.majority() {
		n.become(leader, n.epoch, n.id, n.id)
		n.epochStart, _ = n.last()
		change := put(nil, int16(0), n.id)
		for _, ids := range [][]int32{n.voters, granted} {
			change = put(change, uvarint(len(ids)+1))
			for _, id := range ids {
				change = put(change, id, uvarint(0))
			}
		}
		n.add(controlBatch, 4, raw{0, 0, 0, 2}, put(change, uvarint(0)))
	} else if denied > len(n.voters)-n.majority() {
		n.timerUs = min(n.timerUs, n.nowUs+n.random.Int63n(n.backoffMaxUs+1))
	}
}

// reached returns what a majority of the voters has reached, of what this node has and they have.
func (n *node) reached(own int64, of func(*peer) int64) int64 {
	all := []int64{own}
	for _, id := range n.voters {
		if id != n.id {
			all = append(all, of(n.peer(id)))
		}
	}
	slices.Sort(all)
	return all[len(all)-n.majority()]
}

func (n *node) raise(offset int64) {
	if offset <= n.highWatermark {
		return
	}
	n.highWatermark = offset
	n.event(highWatermark, offset)
	n.effect(committed, offset)
	// Its own state machine hears that it leads only now, when a record of the epoch is committed.
	if n.role == leader {
		n.tell(n.epoch, n.id)
	}
}

func (n *node) advance() {
	end := n.reached(n.durableEnd, func(p *peer) int64 { return p.end })
	if end > n.epochStart {
		n.raise(end)
	}
	n.serve()
}

func (n *node) tick() {
	if n.role == leader {
		heardUs := n.reached(n.nowUs, func(p *peer) int64 { return p.fetchedUs })
		n.timerUs = heardUs + n.fetchUs*3/2
	}
	switch {
	case n.nowUs < n.timerUs:
	case !n.isVoter(n.id):
		n.isLost, n.timerUs = true, never
	case n.role == leader:
		n.resign()
	case n.role == resigned:
		n.become(unattached, n.epoch+1, nobody, nobody)
	default:
		n.become(candidate, n.epoch+1, nobody, n.id)
		n.countVotes()
	}
	n.serve()
}

// resign leaves the leader's id in quorum-state: it is still the leader of that epoch.
func (n *node) resign() {
	n.successors = slices.DeleteFunc(slices.Clone(n.voters), func(id int32) bool { return id == n.id })
	slices.SortStableFunc(n.successors, func(a, b int32) int { return cmp.Compare(n.peer(b).end, n.peer(a).end) })
	n.become(resigned, n.epoch, n.id, n.votedID)
}

// ---- requests of others ------------------------------------------------------------------------

func (n *node) serve() {
	waiting := n.waiting
	n.waiting = nil
	for _, one := range waiting {
		n.answer(one)
	}
}

func (n *node) fetchError(epoch int32) int16 {
	switch {
	case epoch < n.epoch:
		return fencedEpoch
	case epoch > n.epoch: // That of a Fetch is not adopted.
		return unknownEpoch
	case n.role != leader:
		return notLeader
	}
	return noError
}

func (n *node) answer(one fetch) {
	var tags, records []byte
	known, tagCount, err := int64(-1), 1, n.fetchError(one.epoch)
	if err == noError {
		// Unknown until a record of this epoch is committed.
		if n.highWatermark > n.epochStart {
			known = n.highWatermark
		}
		end, epoch := n.endOf(one.lastEpoch)
		if one.offset > 0 && (epoch != one.lastEpoch || end < one.offset) {
			tags, tagCount = put(nil, uvarint(0), uvarint(4+8+1), epoch, end, uvarint(0)), 2
		} else {
			records = n.batchesFrom(one.offset, int(one.maxBytes))
			// The news may be the high watermark alone, once for each.
			if len(records) == 0 && known <= n.peer(one.replicaID).toldHighWatermark && n.nowUs < one.untilUs {
				n.waiting = append(n.waiting, one)
				return
			}
		}
		peer := n.peer(one.replicaID)
		peer.toldHighWatermark = max(known, peer.toldHighWatermark)
	}
	tags = put(tags, uvarint(1), uvarint(4+4+1), n.leaderID, n.epoch, uvarint(0))
	n.effect(answered, one.token, put(nil,
		int32(0), int16(0), int32(0), // Throttle time, error, session.
		uvarint(2), topicID, uvarint(2), int32(0), // One topic with one partition, 0.
		err, known, known, int64(0), // High watermark, last stable offset, log start.
		uvarint(0), int32(-1), // No aborted transactions, no preferred replica.
		compactString(records), uvarint(tagCount), raw(tags), uvarint(0), uvarint(0)))
}

// batchesFrom returns whole batches, one at the least where there is one.
func (n *node) batchesFrom(offset int64, maxBytes int) (records []byte) {
	for _, batch := range n.log {
		if batch.end <= offset {
			continue
		}
		if len(records) > 0 && len(records)+len(batch.data) > maxBytes {
			break
		}
		records = append(records, batch.data...)
	}
	return records
}

func (n *node) onFetch(token int64, r *reader) {
	one := fetch{token: token, replicaID: r.int32(), untilUs: n.nowUs + int64(r.int32())*1000}
	r.take(4)
	one.maxBytes = r.int32() // Not the partition's, which nodes of Kafka leave at 0.
	r.take(1 + 4 + 4)        // Isolation level, session and its epoch.
	r.take(1 + 16 + 1 + 4)   // One topic and its id, one partition and its number.
	one.epoch, one.offset, one.lastEpoch = r.int32(), r.int64(), r.int32()
	if n.fetchError(one.epoch) == noError && n.isVoter(one.replicaID) {
		peer := n.peer(one.replicaID)
		peer.fetchedUs, peer.nextUs = n.nowUs, n.nowUs+n.fetchUs/2
		// Where the logs have not parted before it, the follower has all before this offset.
		if end, epoch := n.endOf(one.lastEpoch); one.offset == 0 || epoch == one.lastEpoch && end >= one.offset {
			peer.end = one.offset
			n.advance()
		}
	}
	n.answer(one)
}

func (n *node) onVote(token int64, r *reader) {
	r.compactBytes()
	r.take(1)
	r.compactBytes()
	r.take(1 + 4)
	epoch, candidateID, lastEpoch, end := r.int32(), r.int32(), r.int32(), r.int64()
	n.learn(epoch, nobody)
	err, isGranted := noError, false
	ownEnd, ownLastEpoch := n.last()
	isUpToDate := lastEpoch > ownLastEpoch || lastEpoch == ownLastEpoch && end >= ownEnd
	isFree := n.role == unattached && (n.votedID == nobody || n.votedID == candidateID)
	if epoch < n.epoch {
		err = fencedEpoch
	} else if isFree && isUpToDate && n.isVoter(n.id) {
		n.persist(epoch, nobody, candidateID)
		isGranted, n.timerUs = true, n.drawElection()
	}
	n.effect(answered, token, put(nil, int16(0), uvarint(2), compactString(topic), uvarint(2), int32(0),
		err, n.leaderID, n.epoch, isGranted, raw{0, 0, 0}))
}

// onLeaderSays takes BeginQuorumEpoch and EndQuorumEpoch, which begin alike.
func (n *node) onLeaderSays(token int64, apiKey int16, r *reader) {
	r.kafkaString()
	r.take(4)
	r.kafkaString()
	r.take(4 + 4)
	leaderID, epoch := r.int32(), r.int32()
	n.learn(epoch, leaderID)
	err := noError
	if epoch < n.epoch {
		err = fencedEpoch
	} else if apiKey == endKey && n.role == follower && n.isVoter(n.id) {
		place := max(slices.Index(r.int32s(), n.id), 0)
		n.timerUs = min(n.timerUs, n.nowUs+int64(place)*n.backoffMaxUs/int64(len(n.voters)))
	}
	n.effect(answered, token, put(nil, int16(0), int32(1), kafkaString(topic), int32(1), int32(0),
		err, n.leaderID, n.epoch))
}

// ---- requests of its own -----------------------------------------------------------------------

func (n *node) send(to *peer, apiKey, version int16, body []byte) {
	n.effect(sent, n.correlation+1, n.portBase+to.id, apiKey, version, body)
	n.correlation++
	to.correlation, to.timeoutUs = n.correlation, n.nowUs+n.requestUs
}

func (n *node) sendFetch(to *peer) {
	end, epoch := n.last()
	n.send(to, fetchKey, 13, put(nil,
		n.id, fetchWaitMs, int32(0), n.fetchMaxBytes, int8(0), int32(0), int32(-1),
		uvarint(2), topicID, uvarint(2), int32(0), // One topic with one partition, 0.
		n.epoch, end, epoch, int64(0), n.fetchMaxBytes,
		raw{0, 0, 1, 1, 0})) // Tags of both, nothing forgotten, no rack, tags.
}

// ask sends what the role has to say to a voter.
func (n *node) ask(to *peer) {
	end, epoch := n.last()
	begin := put(nil, kafkaString(n.clusterID), int32(1), kafkaString(topic), int32(1), int32(0), n.id, n.epoch)
	switch n.role {
	case candidate:
		n.send(to, voteKey, 0, put(nil, compactString(n.clusterID), uvarint(2), compactString(topic),
			uvarint(2), int32(0), n.epoch, n.id, epoch, end, raw{0, 0, 0}))
	case leader:
		n.send(to, beginKey, 0, begin)
	case resigned:
		n.send(to, endKey, 0, put(begin, n.successors))
	default:
		n.sendFetch(to)
	}
}

// poll sends what is due, and returns the deadline of `state`.
func (n *node) poll() int64 {
	deadlineUs := n.timerUs
	for _, one := range n.waiting {
		deadlineUs = min(deadlineUs, one.untilUs)
	}
	if !n.isVoter(n.id) && (n.isLost || n.role == unattached) {
		deadlineUs = min(deadlineUs, n.search())
	}
	for _, id := range n.voters {
		if id == n.id {
			continue
		}
		peer := n.peer(id)
		if peer.correlation != 0 && n.nowUs >= peer.timeoutUs {
			peer.correlation, peer.nextUs = 0, n.nowUs+n.retryUs
		}
		wants := !peer.isDone && n.role != unattached && (n.role != follower || id == n.leaderID)
		if wants && peer.correlation == 0 && n.nowUs >= peer.nextUs {
			n.ask(peer)
		}
		if peer.correlation != 0 {
			deadlineUs = min(deadlineUs, peer.timeoutUs)
		} else if wants {
			deadlineUs = min(deadlineUs, peer.nextUs)
		}
	}
	return deadlineUs
}

// search lets an observer ask anybody who leads; it returns when to ask the next one.
func (n *node) search() int64 {
	if n.nowUs >= n.searchUs {
		to := n.peer(n.servers[n.random.Intn(len(n.servers))])
		if to.correlation == 0 && n.nowUs >= to.nextUs {
			n.sendFetch(to)
		}
		n.searchUs = n.nowUs + n.retryUs
	}
	return n.searchUs
}

// ---- answers -----------------------------------------------------------------------------------

// replied takes the answer to a request under way; the one to any other is ignored.
func (n *node) replied(code int8, r *reader) {
	correlation := r.int64()
	at := slices.IndexFunc(n.peers, func(p *peer) bool { return p.correlation == correlation })
	if at < 0 {
		return
	}
	from := n.peers[at]
	from.correlation, from.nextUs = 0, n.nowUs
	if code == fail {
		from.nextUs += n.retryUs
		return
	}
	apiKey, _ := r.int16(), r.int16()
	body := reader{r.bytes()}
	if apiKey == fetchKey {
		n.onFetched(from, &body)
	} else {
		n.onAnswer(from, apiKey, &body)
	}
}

func (n *node) onAnswer(from *peer, apiKey int16, r *reader) {
	role, epochBefore := n.role, n.epoch
	if apiKey == voteKey {
		r.take(2 + 1)
		r.compactBytes()
	} else {
		r.take(2 + 4)
		r.kafkaString()
		r.take(3)
	}
	r.take(1 + 4)
	err, leaderID, epoch := r.int16(), r.int32(), r.int32()
	n.learn(epoch, leaderID)
	switch {
	case n.role != role || n.epoch != epochBefore:
	case err != noError:
		from.nextUs = n.nowUs + n.retryUs
	case role == leader: // It says so again until it is fetched from.
		from.nextUs = n.nowUs + n.fetchUs/2
	case role == resigned:
		from.isDone = true
	default:
		from.isDone, from.hasGranted = true, r.int8() != 0
		from.hasDenied = !from.hasGranted
		n.countVotes()
	}
}

func (n *node) onFetched(from *peer, r *reader) {
	r.take(4 + 2 + 4 + 1 + 16 + 1 + 4)
	err, known := r.int16(), r.int64()
	r.take(8 + 8)
	r.take(max(r.uvarint()-1, 0) * (8 + 8 + 1)) // Aborted transactions.
	r.take(4)
	records := r.compactBytes()
	leaderID, epoch, divergingEpoch, divergingEnd := nobody, int32(-1), int32(-1), int64(-1)
	for count := r.uvarint(); count > 0; count-- {
		tag, value := r.uvarint(), reader{r.take(r.uvarint())}
		if tag == 0 {
			divergingEpoch, divergingEnd = value.int32(), value.int64()
		} else if tag == 1 {
			leaderID, epoch = value.int32(), value.int32()
		}
	}
	n.learn(epoch, leaderID)
	if err != noError || n.role != follower || from.id != n.leaderID || epoch != n.epoch {
		from.nextUs = n.nowUs + n.retryUs
		return
	}
	n.timerUs, n.isLost = n.nowUs+n.fetchUs, false
	end, _ := n.last()
	switch {
	case divergingEnd >= 0: // What is left may still be cut: its high watermark does not count.
		n.truncate(divergingEpoch, divergingEnd)
		return
	case len(records) > 0 && int64(binary.BigEndian.Uint64(records)) == end:
		n.write(records)
		end, _ = n.last()
	}
	n.raise(min(known, end))
}

// truncate cuts what the leader does not have; a batch in which its end lies, whole.
func (n *node) truncate(epoch int32, end int64) {
	ownEnd, found := n.endOf(epoch)
	if found == epoch {
		ownEnd = min(ownEnd, end)
	}
	kept, keptEnd := 0, int64(0)
	for kept < len(n.log) && n.log[kept].end <= ownEnd {
		keptEnd = n.log[kept].end
		kept++
	}
	n.effect(truncated, keptEnd)
	n.log, n.durableEnd = n.log[:kept], min(n.durableEnd, keptEnd)
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
