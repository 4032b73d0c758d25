package builtin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluicenet/sluice/internal/config"
)

var fileSource = kind{
	kind: config.Source, name: "file",
	keys: "path, max_line",
	does: "the lines of a file, to its end",
	build: func(s *Stage, with *config.Section, env Env) error {
		settings := struct {
			Path    string `yaml:"path"`
			MaxLine int    `yaml:"max_line"`
		}{MaxLine: defaultMaxLine}
		err := with.Decode(&settings)
		if err = config.Join(err, checkPath(with, settings.Path, err), checkMaxLine(with, settings.MaxLine)); err != nil {
			return err
		}
		lines := &lineReader{name: settings.Path, max: settings.MaxLine}
		file := &inputFile{path: settings.Path}
		s.open = func(context.Context) (err error) {
			lines.in, err = file.open()
			return err
		}
		s.close = file.close
		s.use = use{what: absolute(settings.Path), key: "path", shared: true}
		s.source(env, lines.produce)
		return nil
	},
}

// inputFile is a file that is read from.
type inputFile struct {
	path string
	f    *os.File
}

// open opens the file, and returns it as an input. To open a pipe waits for its
// other end; that is left to the first read.
func (i *inputFile) open() (input, error) {
	info, err := os.Stat(i.path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", i.path)
	case !info.Mode().IsRegular():
		return &patient{r: &late{path: i.path}}, nil
	}
	i.f, err = os.Open(i.path)
	if err != nil {
		return nil, err
	}
	return direct{i.f}, nil
}

func (i *inputFile) close() error {
	if i.f != nil {
		_ = i.f.Close() // what was read was read
	}
	return nil
}

// late is a file that is opened by its first read.
type late struct {
	path string
	f    *os.File
}

func (l *late) Read(p []byte) (int, error) {
	if l.f == nil {
		f, err := os.Open(l.path)
		if err != nil {
			return 0, err
		}
		l.f = f
	}
	return l.f.Read(p)
}

// checkPath says what is wrong with a path, unless decoding has said so.
func checkPath(with *config.Section, path string, decoded error) error {
	if path == "" && !(with.Has("path") && decoded != nil) {
		return with.Errorf("path", "is required")
	}
	return nil
}

func checkMaxLine(with *config.Section, n int) error {
	switch {
	case n < 1:
		return with.Errorf("max_line", "is %d, and has to be at least 1", n)
	case n > mostMaxLine:
		return with.Errorf("max_line", "is %d, and may be at most %d: a line is kept in memory", n, mostMaxLine)
	}
	return nil
}

// absolute is the path by which a file is known in the whole process.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}
