// The Go workload: franz-go as each release of Kafka since 2.1 knew it. A client that is held to an
// old release speaks the old versions of every request, so one cluster shows them all.
//
// Arguments: the addresses of brokers, of their SASL listener and of controllers, and releases such
// as 2.1 or 4.3. A line "phase RELEASE" goes before each, and "failed RELEASE: WHY" after one that
// did not do what it was written to do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

const releaseTimeout = 300 * time.Second

// work is one release's share of the workload.
type work struct {
	ctx     context.Context
	release string
	brokers []string
	sasl    []string
	failed  []string
}

func main() {
	failed := false
	for _, release := range os.Args[4:] {
		fmt.Println("phase", release)
		ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
		w := &work{
			ctx: ctx, release: release,
			brokers: strings.Split(os.Args[1], ","), sasl: strings.Split(os.Args[2], ","),
		}
		w.run()
		cancel()
		for _, why := range w.failed {
			failed = true
			fmt.Printf("failed %s: %s\n", release, why)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func (w *work) run() {
	admin := kadm.NewClient(w.client())
	defer admin.Close()
	admin.SetTimeoutMillis(5000)
	w.topics(admin)
	w.produce()
	w.consume()
	w.groups(admin)
	w.transactions(admin)
	w.configs(admin)
	w.security(admin)
	w.placement(admin)
	w.tokens()
}

func (w *work) versions() *kversion.Versions { return kversion.FromString("v" + w.release) }

func (w *work) name(kind string) string { return "go-" + w.release + "-" + kind }

// client is a client of this release's versions.
func (w *work) client(options ...kgo.Opt) *kgo.Client {
	base := []kgo.Opt{
		kgo.SeedBrokers(w.brokers...),
		kgo.ClientID(w.name("client")),
		kgo.MaxVersions(w.versions()),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}
	client, err := kgo.NewClient(append(base, options...)...)
	if err != nil {
		panic(err)
	}
	return client
}

// note takes what a call came to. What a broker answers is what this is about, and a request that
// the release did not have yet is not sent; anything else is a failure.
func (w *work) note(what string, err error) {
	var answered *kerr.Error
	var shards *kadm.ShardErrors
	switch {
	case err == nil, errors.As(err, &answered), errors.As(err, &shards) && w.notes(shards):
	case strings.Contains(err.Error(), "broker is too old"):
	case strings.Contains(err.Error(), "not supported"):
	case strings.Contains(err.Error(), "unsupported"):
	case strings.Contains(err.Error(), "request key is unknown"):
	default:
		w.failed = append(w.failed, fmt.Sprintf("%s: %v", what, err))
	}
}

func (w *work) notes(shards *kadm.ShardErrors) bool {
	for _, shard := range shards.Errs {
		w.note(shards.Name, shard.Err)
	}
	return true
}

// must is for what the rest of the work builds on.
func (w *work) must(what string, err error) bool {
	if err != nil {
		w.failed = append(w.failed, fmt.Sprintf("%s: %v", what, err))
	}
	return err == nil
}
