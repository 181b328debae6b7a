// What the node tells the simulator, and its disk.

package main

import (
	"hash/crc32"
	"math"
)

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
