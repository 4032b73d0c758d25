//go:build race

package node

// checked says that memory is overwritten when it is given back.
const checked = true
