package wire_test

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Reading is an event of a sensor.
type Reading struct {
	Sensor uint32
	Value  int32
}

// readings writes a Reading in 8 bytes.
type readings struct{}

func (readings) Name() string      { return "fixed" }
func (readings) EventType() string { return "example.com/weather.Reading" }

func (readings) Append(dst []byte, r Reading) ([]byte, error) {
	dst = binary.BigEndian.AppendUint32(dst, r.Sensor)
	return binary.BigEndian.AppendUint32(dst, uint32(r.Value)), nil
}

func (readings) Decode(data []byte) (Reading, error) {
	if len(data) != 8 {
		return Reading{}, errors.New("a reading has 8 bytes")
	}
	return Reading{
		Sensor: binary.BigEndian.Uint32(data),
		Value:  int32(binary.BigEndian.Uint32(data[4:])),
	}, nil
}

// A codec of one's own goes into a port as those of this package do.
func ExampleNew() {
	weather := wire.New("weather", readings{})
	fmt.Println(weather.Name(), weather.EventType(), weather.Codec().Name())

	events := []Reading{{Sensor: 1, Value: -4}, {Sensor: 2, Value: 21}}
	packed, n, err := wire.Cut(weather.Codec(), events, wire.Room(64<<10), wire.Room(1<<20), nil)
	fmt.Println(n, err)

	head, body := wire.Batch{First: 1, Events: packed}.Frame()
	var frame sluicev1.ProducerFrame
	_ = wire.ReadProducerFrame(append(head, body...), &frame)
	got, err := wire.Decode(weather.Codec(), frame.GetBatch().GetEvents(), nil)
	fmt.Println(got, err)
	// Output:
	// weather example.com/weather.Reading fixed
	// 2 <nil>
	// [{1 -4} {2 21}] <nil>
}

// A port is made once, in a package that publisher and subscriber import.
func ExampleJSON() {
	numbers := wire.JSON[int]("numbers")
	fmt.Println(numbers.Name(), numbers.EventType(), numbers.Codec().Name())
	// Output: numbers int json
}

// Errors are asked for by their rule, at either end.
func ExampleFromStatus() {
	refusal := &wire.Error{Rule: wire.RuleTypeMismatch, What: "int, not string", Hint: "share one port"}
	there, ok := wire.FromStatus(refusal.Status().Err())
	fmt.Println(ok, there)
	fmt.Println(errors.Is(there, wire.RuleTypeMismatch), there.Retryable())
	// Output:
	// true type-mismatch: int, not string (share one port)
	// true false
}

// Both halves of a session, with nothing between them.
func Example() {
	c := wire.NewConsumer(1, 1, 3)
	p, step, _ := wire.NewProducer(c.Open(), 100, 100)
	fmt.Println("credit for the dispatcher:", step.Allot)
	_ = c.Opened(7, p.Granted(), p.Next())

	_, _ = p.Emit(2)
	first, last, _ := p.Pending()
	p.Wrote(last)
	take, err := c.Batch(first, last-first+1)
	fmt.Println("events", first, "to", last, take, err)

	_ = c.Processed(2, nil, true)
	_ = c.Ask(2)
	frame, _ := c.Next()
	ask := frame.GetAsk()
	fmt.Println("ask", ask.GetN(), "acked", ask.GetAcked())

	step, _ = p.Ask(ask.GetN(), ask.GetAcked(), nil)
	fmt.Println("released", step.Release, "allotted", step.Allot)
	// Output:
	// credit for the dispatcher: 3
	// events 1 to 2 true <nil>
	// ask 2 acked 2
	// released 2 allotted 2
}
