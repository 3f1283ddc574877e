// Command kill9 kills a retryproof server at random moments, again and again,
// while buyers pay with retries, and then counts: every intent of a buyer must
// have become one charge, one credit and one notification, and nothing may be
// left pending.
//
//	go run ./cmd/retryproof/kill9 --binary ./bin/retryproof [--store URL] [--queue URL] [--kills 10] [--buyers 50] [--seed N]
//
// The charges are counted where the processor keeps them and the notifications
// where the phones show them, in files of their own, not in the ledger.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"
)

// options say what to kill, how often, and after how long.
type options struct {
	binary, store, queue, data, listen string
	kills, buyers                      int
	minLife, maxLife, heal             time.Duration
	seed                               uint64
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the retryproof binary (required)")
	flag.StringVar(&o.store, "store", "", "serve's --store; an empty database, or empty for SQLite in --data")
	flag.StringVar(&o.queue, "queue", "", "serve's --queue; empty for the embedded one")
	flag.StringVar(&o.data, "data", "", "serve's --data; a new temporary folder when empty")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:18080", "address to serve on")
	flag.IntVar(&o.kills, "kills", 10, "how often the server is killed")
	flag.IntVar(&o.buyers, "buyers", 50, "how many buyers pay at a time")
	flag.DurationVar(&o.minLife, "min-life", 300*time.Millisecond, "shortest life of a server after it is ready")
	flag.DurationVar(&o.maxLife, "max-life", 3*time.Second, "longest life")
	flag.DurationVar(&o.heal, "heal", 3*time.Minute, "time to settle after the last kill")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the moments and the orders")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if o.binary == "" || flag.NArg() > 0 || o.kills < 0 || o.buyers < 1 || o.maxLife < o.minLife {
		fmt.Fprintln(os.Stderr, "kill9: --binary is needed, and --kills ≥ 0, --buyers ≥ 1, --min-life ≤ --max-life")
		os.Exit(2)
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "kill9: %v\nkill9: repeat with --seed %d\n", err, o.seed)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.data == "" {
		dir, err := os.MkdirTemp("", "retryproof-kill9-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.data = dir
	}
	fmt.Printf("kill9: seed %d, %d kills, %d buyers, store %q, queue %q\n", o.seed, o.kills, o.buyers, o.store, o.queue)
	server := &server{options: o}
	if err := server.start(ctx); err != nil {
		return err
	}
	defer server.kill()
	crowd, err := newCrowd(o)
	if err != nil {
		return err
	}
	crowd.start(ctx)
	moments := rand.New(rand.NewPCG(o.seed, 1))
	for i := range o.kills {
		life := o.minLife + time.Duration(moments.Int64N(int64(o.maxLife-o.minLife)+1))
		if err := pause(ctx, life); err != nil {
			return err
		}
		server.kill()
		fmt.Printf("kill9: kill %d after %v; %d payments answered so far\n", i+1, life.Round(time.Millisecond), crowd.answered())
		if err := server.start(ctx); err != nil {
			return err
		}
	}
	if err := pause(ctx, o.maxLife); err != nil {
		return err
	}
	if err := crowd.finish(ctx, o.heal); err != nil {
		return err
	}
	return settle(ctx, o, crowd)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
