package stage_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exported returns the exported names of a package, those of fields and methods behind
// that of their type.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		p, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(p, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := n.Name.Name
				if n.Recv != nil {
					name = receiver(n.Recv.List[0].Type) + "." + name
				}
				names[name] = true
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = true
				if s, ok := n.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							names[n.Name.Name+"."+name.Name] = true
						}
					}
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
			return true
		})
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// What the documentation of the package calls a name is one: the links in it, and the
// fields and methods in the table of features.
func TestNamesInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	here, dispatch := exported(t, "."), exported(t, "../dispatch")
	links := regexp.MustCompile(`\[([A-Za-z.]+)\]`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(links), 50)
	for _, l := range links {
		if name, ok := strings.CutPrefix(l[1], "dispatch."); ok {
			require.True(t, dispatch[name], l[1])
		} else {
			require.True(t, here[l[1]], l[1])
		}
	}
	_, features, _ := strings.Cut(string(text), "# Features")
	members := regexp.MustCompile(`\b(Source|Sink|Subscription|Info|Workers)\.[A-Z][A-Za-z]*`).FindAllString(features, -1)
	require.NotEmpty(t, members)
	for _, m := range members {
		require.True(t, here[m], m)
	}
	// And what there is to begin with stands in it.
	for name := range here {
		if strings.HasPrefix(name, "New") {
			require.Contains(t, features, "["+name+"]")
		}
	}
}
