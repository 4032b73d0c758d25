package main

import "fmt"

// Case is what is measured, whatever measures it.
type Case struct {
	Name string // "one-hop"
	// Size is how many bytes an event has. Max and Min are the demand: a consumer has
	// at most Max events coming, and is sent batches of Max-Min.
	Size, Max, Min int
	// Subs is how many subscriptions there are.
	Subs int
	// Load is the part of what the row carries at most that is offered; 0 is all of
	// it, and Idle one event at a time.
	Load float64
	// Rows are those that are measured.
	Rows []string
}

// Idle is the load of one event in a millisecond.
const Idle = -1

// Batch is how many events a delivery has.
func (c Case) Batch() int { return c.Max - c.Min }

func (c Case) demand() string { return fmt.Sprintf("%d/%d", c.Max, c.Min) }

var sizes = []int{8, 100, 1 << 10, 16 << 10}

var (
	network = []string{"raw-grpc", "sluice", "raw-grpc-proto", "raw-tcp", "nats-core", "nats-core-each", "nats-jetstream"}
	pair    = []string{"raw-grpc", "sluice"}
)

func cases() []Case {
	var all []Case
	for _, size := range sizes {
		all = append(all, Case{Name: "one-hop", Size: size, Max: 1000, Min: 750, Subs: 1, Rows: append(network[:len(network):len(network)], "sluice-kept", "raw-grpc-kept", "sluice-at-most-once", "sluice-auto")})
	}
	for _, size := range sizes[:2] {
		all = append(all,
			Case{Name: "one-hop", Size: size, Max: 4000, Min: 3000, Subs: 1, Rows: []string{"raw-grpc", "sluice", "raw-tcp"}},
			Case{Name: "one-hop", Size: size, Max: 10, Min: 5, Subs: 1, Rows: []string{"raw-grpc", "sluice", "raw-tcp"}},
			Case{Name: "subscriptions", Size: size, Max: 1000, Min: 750, Subs: 4, Rows: pair},
			Case{Name: "subscriptions", Size: size, Max: 1000, Min: 750, Subs: 64, Rows: pair},
			Case{Name: "three-stages", Size: size, Max: 1000, Min: 750, Subs: 1, Rows: pair},
			Case{Name: "broadcast-1", Size: size, Max: 1000, Min: 750, Subs: 1, Rows: []string{"sluice"}},
			Case{Name: "broadcast-8", Size: size, Max: 1000, Min: 750, Subs: 8, Rows: []string{"sluice"}},
			Case{Name: "demand-8", Size: size, Max: 1000, Min: 750, Subs: 8, Rows: []string{"sluice"}},
		)
	}
	return append(all,
		Case{Name: "ping", Size: 8, Max: 1, Min: 0, Subs: 1, Rows: []string{"raw-grpc", "sluice", "raw-tcp", "nats-core"}},
		Case{Name: "latency-idle", Size: 100, Max: 1000, Min: 750, Subs: 1, Load: Idle, Rows: []string{"raw-grpc", "sluice", "raw-tcp", "nats-core"}},
		Case{Name: "latency-half", Size: 100, Max: 1000, Min: 750, Subs: 1, Load: 0.5, Rows: []string{"raw-grpc", "sluice", "raw-tcp"}},
		Case{Name: "local", Size: 8, Max: 1000, Min: 750, Subs: 1, Rows: []string{"sluice", "channels", "channels-batched"}},
		Case{Name: "local-fan-out-8", Size: 8, Max: 1000, Min: 750, Subs: 8, Rows: []string{"sluice"}},
	)
}

// shortCases are one of each kind.
func shortCases() []Case {
	var short []Case
	seen := map[string]bool{}
	for _, c := range cases() {
		if key := c.Name + c.demand(); c.Size <= 100 && !seen[key] {
			seen[key] = true
			short = append(short, c)
		}
	}
	return short
}
