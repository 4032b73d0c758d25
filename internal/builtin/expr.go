package builtin

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/sluicenet/sluice/internal/config"
)

// expression is a compiled expression over an event. It runs one event at a time.
type expression struct {
	program *vm.Program
	vm      vm.VM
	env     struct {
		Event string `expr:"event"`
	}
}

// compile reads the setting expr of with, which has to be of that kind.
func compile(with *config.Section, want reflect.Kind) (*expression, error) {
	var settings struct {
		Expr string `yaml:"expr"`
	}
	if err := with.Decode(&settings); err != nil {
		return nil, err
	}
	if strings.TrimSpace(settings.Expr) == "" {
		return nil, with.Errorf("expr", "is required")
	}
	x := &expression{}
	var err error
	x.program, err = expr.Compile(settings.Expr, expr.Env(x.env), expr.AsKind(want), expr.WarnOnAny())
	if err != nil {
		e := with.Errorf("expr", "%s", explain(err))
		e.Hint = meant(err)
		return nil, e
	}
	return x, nil
}

var unknownName = regexp.MustCompile(`^unknown name (\w+)`)

// explain says on one line what is wrong with an expression, and where in it.
func explain(err error) string {
	var at *file.Error
	if !errors.As(err, &at) {
		text := oneLine(err.Error())
		if before, ok := strings.CutSuffix(text, ", but got unknown"); ok {
			return before + ", but the type is not known before it runs: compare it with something, or use string(...)"
		}
		return text
	}
	text := oneLine(at.Message)
	switch {
	case at.Snippet == "":
		return text
	case at.Line > 1:
		return fmt.Sprintf("%s, at line %d, column %d of it", text, at.Line, at.Column+1)
	default:
		return fmt.Sprintf("%s, at column %d of it", text, at.Column+1)
	}
}

// meant is the name that was probably meant by an unknown one.
func meant(err error) string {
	var at *file.Error
	if !errors.As(err, &at) {
		return ""
	}
	m := unknownName.FindStringSubmatch(at.Message)
	if m == nil {
		return ""
	}
	return config.Suggest(m[1], append([]string{"event"}, builtin.Names...))
}

// of runs the expression.
func (x *expression) of(event string) (any, error) {
	x.env.Event = event
	result, err := x.vm.Run(x.program, &x.env)
	if err != nil {
		return nil, &Failure{
			// What expr says may have the event in it.
			Err: fmt.Errorf("expr: %s, for the event %q", shortened(explain(err), 120), shortened(event, 60)),
			Try: "say with on_error what becomes of such events, let a filter before it take them out, or write the expression so that it holds for them",
		}
	}
	return result, nil
}

// shortened is text for a message, of at most so many characters.
func shortened(text string, most int) string {
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "…"
		}
	}
	return text
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
