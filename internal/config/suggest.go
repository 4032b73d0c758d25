package config

import "strings"

// Suggest returns the candidate that was probably meant by word, and "" where none
// is close enough. Case does not count, and two letters that changed places are one
// mistake. Of candidates that are equally close the first one wins.
func Suggest(word string, candidates []string) string {
	from := []rune(strings.ToLower(word))
	best, found := 0, ""
	for _, c := range candidates {
		to := []rune(strings.ToLower(c))
		// A third of the letters may be wrong: one of three, two of five.
		limit := (max(len(from), len(to)) + 1) / 3
		if len(from)-len(to) > limit || len(to)-len(from) > limit {
			continue
		}
		if d := distance(from, to); d <= limit && (found == "" || d < best) {
			best, found = d, c
		}
	}
	return found
}

// distance is the number of letters to insert, delete, replace or swap with their
// neighbour to get from a to b (optimal string alignment).
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i, x := range a {
		row[0] = i + 1
		for j, y := range b {
			replace := last[j]
			if x != y {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && x == b[j-1] && y == a[i-1] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
