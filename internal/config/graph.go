package config

import (
	"slices"
	"strings"
)

// checkGraph says what is wrong with how the stages of the file, and the outlets of
// their dead letters, read from each other. Outlets of other nodes are beyond it.
func checkGraph(p *problems, stages []Stage) {
	var names []string // of the stages, and then of the outlets of dead letters
	index := make(map[string]int, len(stages))
	for i, s := range stages {
		names = append(names, s.Name)
		index[s.Name] = i
	}
	// readers are those that wait for each of them.
	readers := make([][]int, len(stages))
	for i, s := range stages {
		if s.DeadLetter == "" {
			continue
		}
		box, ok := index[s.DeadLetter]
		switch {
		case !ok:
			box = len(names)
			names, readers = append(names, s.DeadLetter), append(readers, nil)
			index[s.DeadLetter] = box
		case box < len(stages):
			p.add(codeLetters, s.deadLetterPos, "%s.dead_letter: %s is a stage of this file: dead letters go to an outlet of their own, so take another name",
				join("stages", s.Name), quote(s.DeadLetter))
			continue
		}
		readers[i] = append(readers[i], box)
	}
	for i, s := range stages {
		for _, f := range s.From {
			up, local := index[f.Outlet]
			switch {
			case !local:
			case up == i:
				p.add(codeCycle, f.Pos, "%s reads from itself, so it would wait for itself", join("stages", s.Name))
			case up < len(stages) && stages[up].Kind == Sink:
				p.add(codeSink, f.Pos, "%s reads from %s, which is a sink and has no outlet", join("stages", s.Name), quote(f.Outlet))
			case f.following != "":
				p.add(codeLocal, f.followPos, "%s.from has %s, and %s is an outlet of this file: it says which other nodes to follow, and none is",
					join("stages", s.Name), f.following, quote(f.Outlet))
				fallthrough
			default:
				readers[up] = append(readers[up], i)
			}
		}
	}
	for _, group := range components(readers) {
		if len(group) < 2 {
			continue
		}
		// Stages come first, and one is in every circle.
		path := shortest(readers, group)
		circle := make([]string, 0, len(path)+1)
		for _, i := range append(path, path[0]) {
			circle = append(circle, show(names[i]))
		}
		p.add(codeCycle, stages[path[0]].Pos, "stages in a circle, each would wait for the one before: %s", strings.Join(circle, " -> "))
	}
}

// components returns the strongly connected components (Tarjan, 1972): stages are
// in one if events get from each to each.
func components(next [][]int) [][]int {
	var (
		found   [][]int
		stack   []int
		onStack = make([]bool, len(next))
		number  = make([]int, len(next)) // in the order of the first visit, from 1
		low     = make([]int, len(next)) // the least number that is reached and still open
		visited int
		visit   func(int)
	)
	visit = func(v int) {
		visited++
		number[v], low[v] = visited, visited
		stack, onStack[v] = append(stack, v), true
		for _, w := range next[v] {
			if number[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], number[w])
			}
		}
		if low[v] == number[v] {
			i := len(stack) - 1
			for stack[i] != v {
				i--
			}
			group := slices.Clone(stack[i:])
			for _, w := range group {
				onStack[w] = false
			}
			stack = stack[:i]
			found = append(found, group)
		}
	}
	for v := range next {
		if number[v] == 0 {
			visit(v)
		}
	}
	return found
}

// shortest returns a shortest way from the first stage of a component back to it.
// One is enough: where that way is cut, what is left is reported the next time.
func shortest(next [][]int, group []int) []int {
	start := slices.Min(group)
	inside := make(map[int]bool, len(group))
	for _, v := range group {
		inside[v] = true
	}
	from := map[int]int{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		v := queue[0]
		for _, w := range next[v] {
			if w == start {
				path := []int{v}
				for v != start {
					v = from[v]
					path = append(path, v)
				}
				slices.Reverse(path)
				return path
			}
			if _, seen := from[w]; !seen && inside[w] {
				from[w] = v
				queue = append(queue, w)
			}
		}
	}
	return nil
}
