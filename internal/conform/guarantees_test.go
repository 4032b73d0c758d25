package conform

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests that docs/guarantees.md names are there.
func TestGuaranteesNameTests(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/guarantees.md")
	require.NoError(t, err)
	there := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				there[fn.Name.Name] = true
			}
		}
		return nil
	}))
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(names), 40)
	for _, n := range names {
		require.True(t, there[n[1]], "%s is not a test", n[1])
	}
}
