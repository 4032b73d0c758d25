package config

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorText(t *testing.T) {
	text := func(want string, e Error) {
		t.Helper()
		require.EqualError(t, &e, want)
	}
	text(`f:3:5: unknown key "nmae", did you mean "name"? [SL0103]`,
		Error{File: "f", Line: 3, Col: 5, What: `unknown key "nmae"`, Hint: "name", Code: "SL0103"})
	text(`f: too large`, Error{File: "f", What: "too large"})
	text(`3:5: what`, Error{Line: 3, Col: 5, What: "what"})
	text(`what [SL0101]`, Error{What: "what", Code: "SL0101"})
}

func TestJoin(t *testing.T) {
	at := func(file string, line, col int) *Error { return &Error{File: file, Line: line, Col: col, What: "x"} }

	require.NoError(t, Join())
	require.NoError(t, Join(nil, nil))
	require.Equal(t, Errors{at("f", 1, 2), at("f", 1, 3), at("f", 2, 1), at("g", 1, 1)},
		Join(at("g", 1, 1), nil, Errors{at("f", 2, 1), at("f", 1, 2)}, errors.Join(at("f", 1, 3), at("f", 1, 2))), "sorted, each once")

	mixed := Join(io.EOF, at("f", 1, 1), fmt.Errorf("build: %w", io.ErrUnexpectedEOF))
	require.EqualError(t, mixed, "f:1:1: x\nEOF\nbuild: unexpected EOF")
	require.ErrorIs(t, mixed, io.EOF)
	var e *Error
	require.ErrorAs(t, mixed, &e)
	require.Equal(t, at("f", 1, 1), e)
	require.EqualError(t, Join(io.EOF), "EOF")
}

func TestKinds(t *testing.T) {
	require.Equal(t, "source gate sink Kind(0)", fmt.Sprint(Source, " ", Gate, " ", Sink, " ", Kind(0)))
}
