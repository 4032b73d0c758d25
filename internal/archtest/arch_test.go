// Package archtest holds the shape of the module: who may import whom, that no
// package is named after nothing, and that each says what it is for.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sluicenet/sluice"

func TestEveryPackageHasARule(t *testing.T) {
	each(t, func(t *testing.T, p pkg) {
		_, ok := ruleFor(rules, p.path)
		require.True(t, ok, "no rule yet: say in rules_test.go what it may import, and why")
	})
}

func TestImports(t *testing.T) {
	each(t, func(t *testing.T, p pkg) {
		require.Empty(t, breaches(p, rules, reserves))
	})
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, p pkg) {
		require.NotContains(t, badNames, p.name, "a package is named for what it provides")
		require.NotContains(t, badNames, path.Base(p.path), "a package is named for what it provides")
	})
}

func TestPackagesAreDocumented(t *testing.T) {
	each(t, func(t *testing.T, p pkg) {
		require.True(t, p.documented || p.name == "main" || p.generated || p.testsOnly, "no package comment")
	})
}

func each(t *testing.T, check func(*testing.T, pkg)) {
	for _, p := range load(t) {
		t.Run(p.path, func(t *testing.T) { check(t, p) })
	}
}

// A test that finds nothing is as good as its ability to find something.
func TestBreachesAreFound(t *testing.T) {
	find := func(path string, imports ...string) []string {
		return breaches(pkg{path: path, imports: imports}, rules, reserves)
	}
	allowed := func(path string, imports ...string) {
		t.Helper()
		require.Empty(t, find(path, imports...))
	}
	forbidden := func(path string, imports ...string) {
		t.Helper()
		for _, i := range imports {
			require.NotEmpty(t, find(path, i), "%s imports %s", path, i)
		}
	}
	grpc, memberlist := "google.golang.org/grpc", "github.com/hashicorp/memberlist"
	protobuf, cobra := "google.golang.org/protobuf/proto", "github.com/spf13/cobra"
	proto := module + "/proto/sluice/v1"

	for _, pure := range []string{"pkg/dispatch", "internal/credit", "internal/registry"} {
		allowed(pure, "slices", "fmt", "encoding/binary")
		forbidden(pure, "sync", "sync/atomic", "time", "context", "net", "net/http", "os", "log", "log/slog",
			"golang.org/x/exp/maps", module+"/pkg/stage", proto)
	}
	allowed("pkg/stage", "sync", "context", module+"/pkg/dispatch", module+"/internal/credit")
	forbidden("pkg/stage", grpc, protobuf, memberlist, proto, cobra, module+"/pkg/wire", module+"/internal/registry")
	allowed("pkg/wire", grpc+"/codes", grpc+"/status", protobuf, proto, module+"/internal/credit")
	forbidden("pkg/wire", grpc, grpc+"/metadata", memberlist, module+"/pkg/stage", module+"/pkg/dispatch")
	allowed("pkg/node", grpc, memberlist, proto, module+"/pkg/stage", module+"/pkg/wire", module+"/internal/registry")
	forbidden("pkg/node", cobra, "go.yaml.in/yaml/v4", "github.com/expr-lang/expr/vm", module+"/cmd/sluicectl", module+"/test/e2e")
	allowed("cmd/sluicectl", grpc, cobra, proto)
	forbidden("cmd/sluicectl", module+"/pkg/node", module+"/pkg/stage")
	allowed("cmd/sluice-node", cobra, module+"/pkg/node", module+"/internal/credit")
	forbidden("cmd/sluice-node", proto, module+"/cmd/sluicectl")
	allowed("test/e2e", proto, module+"/pkg/node")
}

// pkg is what the tests need to know of a package.
type pkg struct {
	path       string // below the module
	name       string
	imports    []string // of the files that are not tests
	documented bool
	generated  bool // all of it
	testsOnly  bool
}

// load reads the packages of the module from its source. Unlike the go command
// it sees every file, whatever system the file is for.
func load(t *testing.T) []pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	found := map[string]*pkg{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != root && outside(file, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		at := filepath.ToSlash(rel)
		if found[at] == nil {
			found[at] = &pkg{path: at, generated: true, testsOnly: true}
		}
		return found[at].read(file)
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)

	var pkgs []pkg
	for _, p := range found {
		pkgs = append(pkgs, *p)
	}
	slices.SortFunc(pkgs, func(a, b pkg) int { return strings.Compare(a.path, b.path) })
	return pkgs
}

// outside says that a directory holds no packages of the module.
func outside(dir, name string) bool {
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// read adds a file to the package.
func (p *pkg) read(file string) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	if strings.HasSuffix(file, "_test.go") {
		if p.name == "" {
			p.name = strings.TrimSuffix(f.Name.Name, "_test")
		}
		return nil
	}
	p.name = f.Name.Name
	p.testsOnly = false
	p.generated = p.generated && ast.IsGenerated(f)
	p.documented = p.documented || f.Doc != nil
	for _, spec := range f.Imports {
		i, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if !slices.Contains(p.imports, i) {
			p.imports = append(p.imports, i)
		}
	}
	return nil
}

// breaches returns one line for every import that should not be there.
func breaches(p pkg, rules []rule, reserves []reserve) []string {
	var lines []string
	r, ruled := ruleFor(rules, p.path)
	for _, i := range p.imports {
		if ruled && !r.allows(i) {
			lines = append(lines, fmt.Sprintf("%s imports %s: %s", p.path, i, r.reason))
		}
		for _, s := range reserves {
			if matchesAny(s.imports, i) && !matchesAny(s.only, p.path) {
				lines = append(lines, fmt.Sprintf("%s imports %s: %s", p.path, i, s.reason))
			}
		}
	}
	return lines
}

func ruleFor(rules []rule, path string) (rule, bool) {
	for _, r := range rules {
		if matches(r.pkg, path) {
			return r, true
		}
	}
	return rule{}, false
}

func (r rule) allows(imported string) bool {
	if own(imported) {
		return matchesAny(r.may, imported)
	}
	return !matchesAny(r.never, imported) || matchesAny(r.unless, imported)
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

func matches(pattern, path string) bool {
	if pattern == "external" {
		return !own(path) && !standard(path)
	}
	path = strings.TrimPrefix(path, module+"/")
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == below || strings.HasPrefix(path, below+"/")
	}
	return path == pattern
}

func own(path string) bool {
	return path == module || strings.HasPrefix(path, module+"/")
}

// standard says that a package is of the standard library: the first element of
// its path is no host.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
