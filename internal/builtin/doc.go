// Package builtin is the kinds of stages that sluice-node knows by name. [Build]
// makes a stage of what a file says.
//
// Events are lines: texts without the newline that ends them.
//
//	source: file      path, max_line (1048576)           the lines of a file
//	source: stdin     max_line (1048576)                 the lines of standard input
//	source: generate  count (0), rate (0), text          numbered lines
//	gate:   filter    expr                               the events for which expr is true
//	gate:   map       expr                               expr of each event
//	sink:   file      path, append (false), rate (0)     one event a line
//	sink:   stdout    rate (0)                           one event a line
//
// # Lines
//
// A line ends with \n; the last one of a file may go without. Everything else is
// left as it is, a \r too. A line of more than max_line bytes, at most 1 GiB, fails the source,
// after all events before it have been emitted. A source reads what it is asked for,
// and at most a buffer more. Where it waits for a pipe or a terminal, it emits what
// there is.
//
// Between nodes, events are smaller than 4 MiB. What is not is discarded by name, like
// everything that is discarded.
//
// # Expressions
//
// Filter and map are written in the language of github.com/expr-lang/expr, over one
// variable, event, which is text. They are checked when the stage is built: filter
// has to be true or false, map has to be text. len(event) counts characters, and
// not bytes. An event for which an expression fails (int(event) of what is no
// number) is one that cannot be handled; those before it in its batch are done.
//
// # Sinks
//
// A batch counts as processed when the system has taken all of it: what a sink has
// acknowledged survives its process, though not the machine. An event that is
// delivered again is written again. rate slows a sink down to so many events per
// second.
//
// # Events that cannot be handled
//
// fail the stage, unless the file says something else. What a stage gives up to its
// dead_letter is a line of JSON there, with time, event, stage, outlet, attempts, reason
// and error; of an event that is not UTF-8, raw has the bytes in base64. The outlet is a
// source, published under its name like every other, which ends when the last of the
// stages has ended that send to it.
//
// # Ending
//
// A source or gate that has come to its end by itself keeps what is not taken until
// somebody subscribes and takes it, for as long as that takes. When it is stopped, it
// keeps it for those who subscribe already; who stops it says for how long.
//
// # Building and opening
//
// Build touches nothing outside. [Stage.Open] opens what a stage reads or writes,
// before anything runs; [Stage.Close] closes it.
package builtin
