package conform

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage/stagetest"
)

var update = flag.Bool("update", false, "write into docs/conformance.md which tests name which rows")

const (
	root     = "../.."
	document = root + "/docs/conformance.md"
	noTest   = "no test yet"
)

// areas are the prefixes of the rows.
const areas = `(?:DEM|BAT|BUF|DSC|DDX|DBX|DPX|GAT|HOK|ACC|MAN|MSG|CAN|SUB|END|POL|CSV|ITR|SUP|INT|EDG|AUT|LNT)`

var (
	rowID   = regexp.MustCompile(`\b(` + areas + `)-(\d\d)(?:\.\.(\d\d))?\b`)
	rowLine = regexp.MustCompile(`^\| (` + areas + `-\d\d) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$`)
	claim   = regexp.MustCompile("`([^`]*)`")
)

// row is a line of the document.
type row struct {
	line                   int
	id, what, level, shown string
}

func readRows(t *testing.T) (rows []row, lines []string) {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	lines = strings.Split(string(text), "\n")
	for i, l := range lines {
		if m := rowLine.FindStringSubmatch(l); m != nil {
			rows = append(rows, row{i, m[1], m[2], m[3], m[4]})
		} else {
			require.NotRegexp(t, `^\| `+areas, l, "line %d does not read as a row", i+1)
		}
	}
	return rows, lines
}

// What the document says of tests is so: they are there, and name the row.
func TestDocumentClaims(t *testing.T) {
	named := mentions(t)
	rows, lines := readRows(t)
	if *update {
		for _, r := range rows {
			lines[r.line] = fmt.Sprintf("| %s | %s | %s | %s |", r.id, r.what, r.level, shown(r, named[r.id]))
		}
		require.NoError(t, os.WriteFile(document, []byte(strings.Join(lines, "\n")), 0o644))
		rows, _ = readRows(t)
	}
	for _, r := range rows {
		claims := claim.FindAllStringSubmatch(r.shown, -1)
		for _, c := range claims {
			require.Contains(t, named[r.id], c[1], "%s is said to be shown there; go test ./internal/conform -update writes what is", r.id)
		}
		if len(claims) == 0 {
			require.Contains(t, []string{noTest, "—"}, r.shown, r.id)
			require.Equal(t, strings.HasPrefix(r.level, "not applicable"), r.shown == "—", r.id)
		}
	}
}

// Every row that a test names is in the document, once.
func TestDocumentHasAllRows(t *testing.T) {
	rows, _ := readRows(t)
	known := map[string]bool{}
	for _, r := range rows {
		require.False(t, known[r.id], "%s is there twice", r.id)
		known[r.id] = true
		require.Regexp(t, `^(holds|(differs|not applicable): .+)$`, r.level, r.id)
		require.NotEmpty(t, r.what, r.id)
	}
	for id, tests := range mentions(t) {
		require.True(t, known[id], "%s is named in %v, and docs/conformance.md does not know it", id, tests)
	}
}

// What cannot be the same over a network stands in the document as the suite has it,
// and a test shows what happens instead.
func TestDocumentOfTheWire(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	_, list, ok := strings.Cut(string(text), "## Over a network\n")
	require.True(t, ok)
	var want strings.Builder
	for _, id := range slices.Sorted(maps.Keys(stagetest.OnAWire)) {
		fmt.Fprintf(&want, "- %s: %s.\n", id, stagetest.OnAWire[id])
	}
	require.Contains(t, list, want.String())
	instead, err := os.ReadFile("differ_test.go")
	require.NoError(t, err)
	for id := range stagetest.OnAWire {
		require.Contains(t, string(instead), id)
	}
}

func shown(r row, tests []string) string {
	switch {
	case len(tests) > 0:
		return "`" + strings.Join(tests, "` `") + "`"
	case strings.HasPrefix(r.level, "not applicable"):
		return "—"
	}
	return noTest
}

// mentions finds which rows are named where: in which test of which file, in which
// transcript, or in which file of the suite.
func mentions(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	add := func(ids []string, where string) {
		for _, id := range ids {
			if found[id] == nil {
				found[id] = map[string]bool{}
			}
			found[id][where] = true
		}
	}
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && file != root && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		transcript := strings.Contains(name, "/testdata/") && strings.HasSuffix(name, ".txt")
		suite := strings.HasPrefix(name, "pkg/stage/stagetest/") && strings.HasSuffix(name, ".go")
		code := strings.HasSuffix(name, "_test.go")
		if !transcript && !suite && !code {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !code {
			if name != "pkg/stage/stagetest/stagetest.go" { // where rows are excepted
				add(idsOf(string(text)), name)
			}
			return nil
		}
		return inTests(name, text, add)
	}))
	sorted := map[string][]string{}
	for id, places := range found {
		sorted[id] = slices.Sorted(maps.Keys(places))
	}
	return sorted
}

// inTests finds the rows in the code and the comments of tests. Those that are named
// outside of any test are of the file.
func inTests(name string, text []byte, add func(ids []string, where string)) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	rest := string(text)
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || !regexp.MustCompile(`^(Test|Fuzz|Example)`).MatchString(d.Name.Name) {
			continue
		}
		from := d.Pos()
		if d.Doc != nil {
			from = d.Doc.Pos()
		}
		part := string(text[set.Position(from).Offset:set.Position(d.End()).Offset])
		add(idsOf(part), name+":"+d.Name.Name)
		rest = strings.Replace(rest, part, "", 1)
	}
	add(idsOf(rest), name)
	return nil
}

// idsOf finds rows in a text. "DBX-01..03" are three.
func idsOf(text string) (ids []string) {
	for _, m := range rowID.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		for n := first; n <= last; n++ {
			ids = append(ids, fmt.Sprintf("%s-%02d", m[1], n))
		}
	}
	return ids
}

func TestIDsOf(t *testing.T) {
	require.Equal(t, []string{"DBX-01", "DBX-02", "DBX-03", "CAN-07"}, idsOf("DBX-01..03 and CAN-07, no ABC-01"))
}
