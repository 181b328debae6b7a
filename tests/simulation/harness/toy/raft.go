// Roles, requests and answers.

package main

import (
	"cmp"
	"encoding/binary"
	"slices"
)

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
