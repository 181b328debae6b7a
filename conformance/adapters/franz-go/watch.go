package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// No goroutine can be stopped from outside. So a process whose decode does not return ends itself,
// which is charged to that one test (KS-2026-01).
const (
	decodeTimeMax = 100 * time.Millisecond // Of the processor: a busy machine is no fault of kmsg's.
	watchInterval = 20 * time.Millisecond
	exitTooLong   = 4
)

type watch struct {
	begun atomic.Int64 // The processor's time when the running decode began, or one of:
}

const (
	idle   = -1
	ending = -2
)

// start looks after the decodes of the process; flush writes the replies that are there.
func (w *watch) start(flush func() error) {
	w.begun.Store(idle)
	go func() {
		for range time.Tick(watchInterval) {
			begun := w.begun.Load()
			if begun < 0 || processorTime()-time.Duration(begun) < decodeTimeMax {
				continue
			}
			if w.begun.CompareAndSwap(begun, ending) { // From here on no decode returns.
				_ = flush()
				fmt.Fprintf(os.Stderr, "kmsg was still decoding after %s\n", decodeTimeMax)
				os.Exit(exitTooLong)
			}
		}
	}()
}

func (w *watch) decode(m *message, version int16, data []byte) (map[string]any, error) {
	begun := int64(processorTime())
	w.begun.Store(begun)
	value, err := m.decode(version, data)
	if !w.begun.CompareAndSwap(begun, idle) {
		select {} // The process ends.
	}
	return value, err
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano())
}
