//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		text string
		want account
	}{
		{"1\n2\n3\n4\n", account{}},
		{"1\n2  \n3\n4\n", account{}},
		{"1\n3\n4\n", account{lost: 1}},
		{"1\n2\n3\n", account{lost: 1}},
		{"", account{lost: 4}},
		{"1\n2\n3\n2\n3\n4\n", account{twice: 2}},
		{"1\n3\n2\n4\n", account{late: 1}},
		{"2\n1\n1\n", account{lost: 2, twice: 1, late: 1}},
	} {
		got, err := judge(test.text, 4)
		require.NoError(t, err)
		require.Equal(t, test.want, got, test.text)
		require.Equal(t, test.want == account{}, got.once() == nil)
	}
	for _, text := range []string{"5\n", "0\n", "x\n", "\n"} {
		_, err := judge(text, 4)
		require.Error(t, err, text)
	}
}
