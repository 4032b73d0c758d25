// Package stage is sluice in one process: stages that events flow through, and the
// demand that flows the other way.
//
// A [Source] produces events, a [Gate] turns each batch into zero or more others, a
// [Sink] consumes them. [Connect] declares a subscription of an [Inlet] to an
// [Outlet], [Run] runs stages until they have ended. Stages that were not written
// for a network run on one unchanged: package node makes outlets of other nodes.
//
// # Demand
//
// Nothing moves until it is asked for. A consumer asks for max demand (1000) events
// when it subscribes; its handler gets them in batches of at most max minus min
// demand (250). After each batch it looks at its open demand, what it has asked for
// and not processed. When that is at most min demand (750), it asks for as many as
// bring it back to the maximum. So producer and consumer work at the same time, and
// no more than max demand is ever on its way. A producer never sends more than was
// asked for.
//
// A gate asks for more only when somebody subscribes to it and wants more than
// waits in its buffer, or its buffer is empty. So a slow sink slows the source.
//
// # Ordering
//
// Events of one subscription arrive in the order in which they were emitted, except
// those that come back from a consumer that is gone: they come late, and marked.
// Nothing is promised between two subscriptions.
//
// # Concurrency
//
// Handlers of one stage never run concurrently, but for [Workers], which runs each event
// by itself, as many at once as there are slots; stages run in parallel. Everything else
// (asks, subscriptions, cancels, snapshots, serving what is buffered) goes on while a
// handler runs, also while a source waits for its next event.
//
// A stage is a pure core and a loop. The cores ([dispatch.Dispatcher], producer,
// consumer) are plain values that return what to do. The loops hold a lock each:
// the one of an outlet may be held while the one of an inlet is taken, never the
// other way round, and neither while a handler runs. What is asked for is room
// reserved at the consumer, so handing over never blocks.
//
// # Ending
//
// A source ends by returning io.EOF. A stage that ends first serves what it holds,
// waits until everything is acknowledged, and then tells its subscribers; what they
// do is their cancel mode's to say ([Permanent] is the default: they end too).
//
// # Errors
//
// A handler's error or panic fails its stage, and reaches others as the failure of
// its subscriptions. A gate or a sink may do something else about it, its OnError
// ([ErrorPolicy]): try again in place, skip the event by name, or send it to an outlet
// for dead letters ([NewDeadLetters]). A handler that knows which event it was says so
// with [FailedAt].
//
// # Supervision
//
// [Supervise] makes stages anew when they fail. In the order of the flow, with permanent
// subscriptions by name ([Names]) and [RestForOne], a pipeline comes back as a whole.
//
// # What is lost
//
// Nothing in silence. What is discarded (buffer overflow, a failed stage's buffer)
// is counted by reason and reported to OnDiscard. What a failed consumer had not
// processed goes back to its producer, and from there to another subscriber, marked
// with how often it has come back from a handler: at least once. [AtMostOnce] turns that
// off. What was tried comes in a batch of its own, and what comes back for the
// MaxAttempts-th time (5) is discarded by name, or goes to the producer's dead letters.
//
// # Features
//
// What there is, and by which name:
//
//	stages                     [Source], [Gate], [Sink]; [NewSource], [NewGate], [NewSink]
//	map, filter                [Map], [Filter]
//	sources of what is there   [FromChan], [FromSeq]
//	running, stopping          [Run], [Runner], [Host], Source.DrainTimeout
//	subscribing                [Connect] before the run, [Subscribe] during it, [Subscription]
//	demand                     [MaxDemand], [MinDemand], [Unbounded]
//	demand by itself           [AutoDemand], [Auto], SubscriptionInfo.Demand
//	manual demand              [Manual], Subscription.Ask
//	accumulate, forward        Source.Accumulate, Source.Forward
//	pushed events, an emitter  Source.Push, Source.PushWait, Source.Finish
//	buffers, overflow          Source.Buffer, [KeepLast], [KeepFirst], [Unlimited]
//	discards                   Source.OnDiscard, Info.Discarded
//	dispatchers                Source.Dispatcher; [dispatch.Demand], [dispatch.Broadcast]
//	partitions                 [dispatch.Partition], [InPartition]
//	selectors                  [Where]
//	messages, calls            [Handle], [HandleSink]
//	errors, retries, skipping  [ErrorPolicy] in Gate.OnError, Sink.OnError; [FailedAt]
//	dead letters, attempts     [NewDeadLetters], [LettersAs], Source.MaxAttempts
//	hooks                      Source.OnSubscribers, Sink.OnSubscribed, Sink.OnCancelled
//	cancel modes               [Permanent], [Transient], [Temporary], [Joint]
//	cancelling, reasons        Subscription.Cancel, [Ending], [Reason]
//	ending a stage             io.EOF of a source, [Stop] of a gate or a sink
//	at least, at most once     [AtMostOnce], [DeliveryInfo]
//	where a batch comes from   [Delivery]
//	worker pool                [NewPool]
//	supervised workers         [NewWorkers], [Restart], [Tolerance], Workers.Terminate
//	supervision                [Supervise], [Strategy], [Group]
//	names                      [Names], [Register], [Named]
//	loops, folds               [All], [Fold]
//	introspection              [Inspector], [Info], [SubscriptionInfo], Subscription.Info
//	watching events            [Tapper]
//	conformance                package stagetest, for outlets of others
package stage
