package harness

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// No goroutine can be stopped from outside. So a process whose call does not return ends itself,
// which is charged to that one test.
const (
	callTimeMax   = 100 * time.Millisecond // Of the processor: a busy machine is no fault of a library.
	watchInterval = 20 * time.Millisecond
	exitTooLong   = 4
)

type watch struct {
	library string
	begun   atomic.Int64 // The processor's time when the running call began, or one of:
}

const (
	idle   = -1
	ending = -2
)

// start looks after the calls of the process; flush writes the replies that are there.
func (w *watch) start(flush func() error) {
	w.begun.Store(idle)
	go func() {
		for range time.Tick(watchInterval) {
			begun := w.begun.Load()
			if begun < 0 || processorTime()-time.Duration(begun) < callTimeMax {
				continue
			}
			if w.begun.CompareAndSwap(begun, ending) { // From here on no call returns.
				_ = flush()
				fmt.Fprintf(os.Stderr, "%s was still at work after %s\n", w.library, callTimeMax)
				os.Exit(exitTooLong)
			}
		}
	}()
}

func (w *watch) during(call func()) {
	begun := int64(processorTime())
	w.begun.Store(begun)
	call()
	if !w.begun.CompareAndSwap(begun, idle) {
		select {} // The process ends.
	}
}

func (w *watch) encode(m Message, version int16, value any) (data []byte, err error) {
	w.during(func() { data, err = m.Encode(version, value) })
	return data, err
}

func (w *watch) decode(
	m Message, version int16, data []byte,
) (value map[string]any, trailing int, err error) {
	w.during(func() { value, trailing, err = m.Decode(version, data) })
	return value, trailing, err
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
