// Package ports is what the three programs have in common: the names of the outlets
// and the types of their events.
package ports

import "github.com/sluicenet/sluice/pkg/wire"

// The outlets of the network.
var (
	Numbers = wire.JSON[int]("numbers")
	Doubled = wire.JSON[int]("doubled")
)
