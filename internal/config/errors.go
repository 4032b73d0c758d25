package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The codes; the documentation of the package says what they mean.
const (
	codeNotYAML   = "SL0101"
	codeNotTaken  = "SL0102"
	codeUnknown   = "SL0103"
	codeDuplicate = "SL0104"
	codeType      = "SL0105"
	codeTooMuch   = "SL0106"
	codeMissing   = "SL0107"
	codeValue     = "SL0108"
	codeAddress   = "SL0109"
	codeCluster   = "SL0110"
	codeKind      = "SL0111"
	codeFrom      = "SL0112"
	codeTwice     = "SL0113"
	codeCycle     = "SL0114"
	codeSink      = "SL0115"
	codeSecurity  = "SL0116"
	codeLocal     = "SL0117"
	codePolicy    = "SL0118"
	codeLetters   = "SL0119"
	codeSettings  = "SL0120"
)

// Pos is a position in a file. Both count from 1; a column is a character. A line
// of 0 is no position.
type Pos struct{ Line, Col int }

func (p Pos) compare(q Pos) int {
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col))
}

// Error is one problem of a file. It prints as
//
//	file:line:col: what, did you mean "xyz"? [SL0103]
//
// without what is empty.
type Error struct {
	File      string
	Line, Col int
	What      string
	// Hint is what was probably meant.
	Hint string
	// Code is the kind of problem.
	Code string
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s:", e.File)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Col)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.What)
	if e.Hint != "" {
		fmt.Fprintf(&b, ", did you mean %q?", e.Hint)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, " [%s]", e.Code)
	}
	return b.String()
}

// Errors is all problems of a file, sorted by position. It prints one a line.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, problem := range e {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems one by one.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, problem := range e {
		errs[i] = problem
	}
	return errs
}

// Join returns the problems in errs as one [Errors], sorted, and nil where there
// are none. Errors of other types come after them.
func Join(errs ...error) error {
	var p problems
	var others []error
	var take func(error)
	take = func(err error) {
		switch e := err.(type) {
		case nil:
		case *Error:
			p.list = append(p.list, e)
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				take(one)
			}
		default:
			others = append(others, err)
		}
	}
	for _, err := range errs {
		take(err)
	}
	if len(others) == 0 {
		return p.err()
	}
	return errors.Join(append([]error{p.err()}, others...)...)
}

// problems collects what is wrong with one file.
type problems struct {
	file string
	list Errors
}

func (p *problems) add(code string, at Pos, format string, args ...any) *Error {
	e := &Error{File: p.file, Line: at.Line, Col: at.Col, What: fmt.Sprintf(format, args...), Code: code}
	p.list = append(p.list, e)
	return e
}

// err returns the problems in the order of the file, those of one position in the
// order in which they were found. What an alias repeats is reported once.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	list := slices.Clone(p.list)
	slices.SortStableFunc(list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), Pos{a.Line, a.Col}.compare(Pos{b.Line, b.Col}))
	})
	return slices.CompactFunc(list, func(a, b *Error) bool { return *a == *b })
}
