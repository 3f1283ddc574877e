package check

import "time"

// Config is what is known of a path. Zero means not stated: the default, where a
// field names one. Durations are strings in the JSON form: "20ms", "5s", "24h", "30d",
// "forever".
type Config struct {
	// Client is whoever sends and retries.
	Client Client `json:"client"`
	// Server is the API that takes the requests.
	Server Server `json:"server"`
	// PSP is the outside system that is called under a derived key: a card processor,
	// or any other. Defaults to none.
	PSP *PSP `json:"psp"`
	// Resolver settles what is unknown by asking the PSP again. Defaults to none.
	Resolver *Resolver `json:"resolver"`
	// Relay sends what the outbox holds. Defaults to none.
	Relay *Relay `json:"relay"`
	// Queue brings the relay's messages to the worker. Defaults to none.
	Queue *Queue `json:"queue"`
	// Worker handles the messages. Defaults to none.
	Worker *Worker `json:"worker"`
	// Inbox remembers the messages that the worker has applied. Defaults to none.
	Inbox *Inbox `json:"inbox"`
	// Cache is a Valkey or Redis in which keys or dedup ids live. Defaults to none.
	Cache *Cache `json:"dedup_cache"`
}

// Client is whoever sends and retries.
type Client struct {
	// Timeout is when a client gives one send up. Defaults to not stated.
	Timeout time.Duration `json:"timeout"`
	// RetryHorizon is the longest time after the first send at which a retry can still
	// arrive, a person who comes back included; it may begin a deadline later. Defaults to not stated.
	RetryHorizon time.Duration `json:"retry_horizon"`
}

// Server is the API that takes the requests.
type Server struct {
	// Stamp says who takes the time of arrival: "balancer" on its own clock, "accept"
	// when the server has read the request's headers, "pickup" when a thread begins to
	// work on it. Defaults to "accept".
	Stamp string `json:"stamp" enum:"balancer,accept,pickup"`
	// WaitBeforeStamp is the longest time between the client's send and that stamp:
	// the network alone with "balancer", the balancer's queue too with "accept", the
	// server's own queue as well with "pickup". Defaults to not stated.
	WaitBeforeStamp time.Duration `json:"wait_before_stamp"`
	// WaitBeforeQueue is the longest time between the client's send and the server's
	// own queue: the network and the balancer's queue. It is what ShedAfter does not
	// bound, so without it shedding shortens no WaitBeforeStamp. Defaults to not stated.
	WaitBeforeQueue time.Duration `json:"wait_before_queue"`
	// ShedAfter is how long a request may wait in the server's own queue before it is
	// refused. With "pickup" a request is stamped at most WaitBeforeQueue + ShedAfter
	// after its send. Defaults to no shedding.
	ShedAfter time.Duration `json:"shed_after"`
	// Deadline is how long after its arrival a request may begin a side effect.
	// Defaults to 5 s.
	Deadline time.Duration `json:"deadline"`
	// Lease is how long after its arrival a request owns its key. Defaults to Deadline.
	Lease time.Duration `json:"lease"`
	// Margin is added to a lease before anybody takes over. Defaults to 1 s.
	Margin time.Duration `json:"margin"`
	// ClockOffset is the largest difference between any two of the path's clocks.
	// Defaults to Margin, and to 1 s at least.
	ClockOffset time.Duration `json:"clock_offset"`
	// BalancerTimeout is when the load balancer gives a request up. Defaults to never.
	BalancerTimeout time.Duration `json:"balancer_timeout"`
	// AnswerTTL is how long an answer is kept for repeats. Defaults to 24 h.
	AnswerTTL time.Duration `json:"answer_ttl"`
	// Guard is what keeps a retry from running again in the end: "durable", a row that
	// lives as long as the effect; "window", a key record that expires; "none", only
	// the PSP's own key. Defaults to "durable".
	Guard string `json:"guard" enum:"durable,window,none"`
	// GuardMemory is how long the guard remembers. Defaults to "forever" for "durable",
	// to AnswerTTL for "window" and to the PSP's KeyWindow, which it cannot exceed, for
	// "none".
	GuardMemory time.Duration `json:"guard_memory"`
}

// PSP is the outside system that is called under a derived key.
type PSP struct {
	// Timeout is when a call to it is given up. Defaults to not stated.
	Timeout time.Duration `json:"timeout"`
	// CutOff says what ends the waiting for a call: "timeout", its own Timeout and
	// nothing else; "lease", the end of the lease that it runs under, the server's or the
	// resolver's, when that comes first. Defaults to "timeout".
	CutOff string `json:"cut_off" enum:"timeout,lease"`
	// KeyWindow is how long it remembers a key. Defaults to 24 h.
	KeyWindow time.Duration `json:"key_window"`
	// WindowMargin is how long before the end of KeyWindow keys are no longer repeated,
	// and payments looked up in place of that. Defaults to 1 h.
	WindowMargin time.Duration `json:"window_margin"`
	// Rate is how many requests a second it takes. Defaults to unlimited.
	Rate float64 `json:"rate"`
}

// Resolver settles what is unknown.
type Resolver struct {
	// Lease is how long one effect belongs to the resolver that asks about it.
	// Defaults to 15 s.
	Lease time.Duration `json:"lease"`
	// Rate bounds all resolvers' questions a second. Defaults to 5.
	Rate float64 `json:"rate"`
}

// Relay sends what the outbox holds.
type Relay struct {
	// Lease is how long a batch belongs to the relay that claimed it. Defaults to 15 s.
	Lease time.Duration `json:"lease"`
	// SendTimeout bounds one send. Defaults to 5 s or a third of Lease, whichever is
	// shorter.
	SendTimeout time.Duration `json:"send_timeout"`
}

// Queue brings the relay's messages to the worker.
type Queue struct {
	// Retention is the longest time between the first and the last delivery of one
	// message that was sent once. Defaults to not stated.
	Retention time.Duration `json:"retention"`
	// RedriveWithin is how long after its first send a message may be sent again: as a
	// dead letter, or as an outbox row that was parked. Defaults to never.
	RedriveWithin time.Duration `json:"redrive_within"`
	// DedupWindow is how long it remembers the id of a message, so that a repeated send
	// is dropped; a redelivery is not. Defaults to 5 min.
	DedupWindow time.Duration `json:"dedup_window"`
	// Visibility is how long a delivery is its receiver's alone. Defaults to 30 s.
	Visibility time.Duration `json:"visibility"`
}

// Worker handles the messages.
type Worker struct {
	// Time is the longest time between the delivery of a message and its deletion, the
	// wait behind others of its batch included. Defaults to not stated.
	Time time.Duration `json:"time"`
}

// Inbox remembers the messages that the worker has applied.
type Inbox struct {
	// Retention is how long it remembers one. Defaults to 30 days.
	Retention time.Duration `json:"retention"`
}

// Cache is a Valkey or Redis.
type Cache struct {
	// Holds says what is lost with an entry: "dedup", the memory that something was
	// done; "answers", a copy that can be made again. Defaults to "dedup".
	Holds string `json:"holds" enum:"dedup,answers"`
	// MaxMemoryPolicy is its maxmemory-policy. No default: the server's own is
	// noeviction, and managed ones often have another.
	MaxMemoryPolicy string `json:"maxmemory_policy" enum:"noeviction,allkeys-lru,allkeys-lfu,allkeys-random,volatile-lru,volatile-lfu,volatile-random,volatile-ttl,allkeys-lrm,volatile-lrm"`
}

// withDefaults returns a copy that shares nothing with c.
func (c Config) withDefaults() Config {
	s := &c.Server
	orElse(&s.Stamp, "accept")
	orElse(&s.Deadline, 5*time.Second)
	orElse(&s.Lease, s.Deadline)
	orElse(&s.Margin, time.Second)
	orElse(&s.AnswerTTL, 24*time.Hour)
	orElse(&s.Guard, "durable")
	if p := own(&c.PSP); p != nil {
		orElse(&p.CutOff, "timeout")
		orElse(&p.KeyWindow, 24*time.Hour)
		orElse(&p.WindowMargin, time.Hour)
	}
	if r := own(&c.Resolver); r != nil {
		orElse(&r.Lease, 15*time.Second)
		orElse(&r.Rate, 5)
	}
	if r := own(&c.Relay); r != nil {
		orElse(&r.Lease, 15*time.Second)
		orElse(&r.SendTimeout, min(5*time.Second, r.Lease/3))
	}
	if q := own(&c.Queue); q != nil {
		orElse(&q.DedupWindow, 5*time.Minute)
		orElse(&q.Visibility, 30*time.Second)
	}
	if i := own(&c.Inbox); i != nil {
		orElse(&i.Retention, 30*24*time.Hour)
	}
	if k := own(&c.Cache); k != nil {
		orElse(&k.Holds, "dedup")
	}
	return c
}

// own replaces what the pointer points to by a copy.
func own[T any](p **T) *T {
	if *p != nil {
		copied := **p
		*p = &copied
	}
	return *p
}

func orElse[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
