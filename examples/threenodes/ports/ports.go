// Package ports is what the three programs have in common: the names of the outlets
// and the types of their events, and where the nodes meet.
package ports

import "github.com/sluicenet/sluice/pkg/wire"

// The outlets of the network.
var (
	Numbers = wire.JSON[int]("numbers")
	Doubled = wire.JSON[int]("doubled")
)

// Seeds are where the nodes meet. It is enough that one of them is there.
var Seeds = []string{"127.0.0.1:7946", "127.0.0.1:7947", "127.0.0.1:7948"}
