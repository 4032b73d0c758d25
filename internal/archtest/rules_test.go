package archtest

// A pattern names packages: "pkg/dispatch" one of them, "test/..." it and all
// below it. Packages of this module go without the path of the module. The
// pattern "external" is every package that is neither of this module nor of the
// standard library.

// A rule says what a package may import. Only files that are not tests count.
type rule struct {
	// pkg is a pattern. Where several rules name a package, the first one holds.
	pkg string
	// may is what it may import of this module. The rest is forbidden.
	may []string
	// never is what it may not import from outside, except for what unless names.
	never, unless []string
	// reason says why, in the words that a failing test shows.
	reason string
}

// A reserve says that nobody but some packages imports something.
type reserve struct {
	imports []string
	only    []string
	reason  string
}

// What a pure package does without: everything that waits, locks, looks at a
// clock, or reaches outside.
var impure = []string{
	"external",
	"sync/...", "time/...", "context", "net/...", "os/...", "log/...",
}

// A package needs a rule before it can exist: add one here, in the order of who
// may import whom.
var rules = []rule{
	{
		pkg:    "proto/...",
		reason: "the wire is written by a generator, and depends on nothing of ours",
	},
	{
		pkg:    "internal/credit",
		never:  impure,
		reason: "the arithmetic of demand is pure: values in, values out",
	},
	{
		pkg:    "internal/registry",
		never:  impure,
		reason: "merging catalogs is pure: the order in which news arrives cannot matter",
	},
	{
		pkg:    "internal/authz",
		never:  impure,
		reason: "who may do what is decided by values alone, so that a table can show all of it",
	},
	{
		pkg:    "internal/mtls",
		never:  []string{"external"},
		reason: "three files become what the standard library takes for TLS; who may do what is decided elsewhere",
	},
	{
		pkg:    "internal/group",
		never:  []string{"external", "sync/...", "context", "net/...", "os/...", "log/..."},
		reason: "whom to follow is decided without a clock or a lock: the time is passed in",
	},
	{
		pkg:    "internal/autodemand",
		never:  []string{"external", "sync/...", "context", "net/...", "os/...", "log/..."},
		reason: "how much to ask for is decided without a clock or a lock: the time is passed in",
	},
	{
		pkg:    "internal/config",
		may:    []string{"internal/authz"},
		never:  []string{"google.golang.org/...", "github.com/hashicorp/..."},
		reason: "reading a file starts nothing, and knows no kind of stage",
	},
	{
		pkg:    "pkg/dispatch",
		may:    []string{"internal/credit"},
		never:  impure,
		reason: "a dispatcher says who gets which event and does nothing itself, so that it can be tested without goroutines",
	},
	{
		pkg:    "pkg/dispatch/dispatchtest",
		may:    []string{"pkg/dispatch"},
		never:  []string{"external"},
		unless: []string{"pgregory.net/rapid"},
		reason: "whoever writes a dispatcher tests it without a stage, and gets nothing with it but what the test takes",
	},
	{
		pkg:    "pkg/stage",
		may:    []string{"pkg/dispatch", "internal/credit", "internal/autodemand"},
		never:  []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/...", "github.com/hashicorp/..."},
		reason: "a program that runs stages in one process links no network",
	},
	{
		pkg:    "pkg/stage/stagetest",
		may:    []string{"pkg/stage", "pkg/dispatch"},
		never:  []string{"external"},
		unless: []string{"github.com/stretchr/testify/require"},
		reason: "the suite knows what a stage promises, and not by which way an outlet is reached",
	},
	{
		pkg:    "pkg/wire",
		may:    []string{"internal/credit", "proto/..."},
		never:  []string{"google.golang.org/grpc/...", "github.com/hashicorp/..."},
		unless: []string{"google.golang.org/grpc/codes", "google.golang.org/grpc/status"},
		reason: "the protocol knows frames and credit; who carries them and who handles the events is not its business",
	},
	{
		pkg:    "pkg/node",
		may:    []string{"pkg/...", "proto/...", "internal/credit", "internal/group", "internal/registry", "internal/mtls", "internal/authz"},
		reason: "the node is where stages, the wire, gRPC and gossip meet, and it stands below the programs",
	},

	{
		pkg:    "internal/builtin",
		may:    []string{"pkg/stage", "internal/config"},
		never:  []string{"google.golang.org/...", "github.com/hashicorp/..."},
		reason: "a kind of stage knows its settings and its events, and not whether a network is in between",
	},
	{
		pkg:    "cmd/sluicectl/...",
		may:    []string{"proto/...", "internal/cli/...", "internal/mtls", "internal/authz", "cmd/sluicectl/..."},
		reason: "sluicectl speaks the admin API like any other client would",
	},
	{
		pkg:    "cmd/sluice-node/...",
		may:    []string{"pkg/...", "internal/...", "proto/...", "cmd/sluice-node/..."},
		reason: "the daemon is made of what everybody can use; its demo asks nodes what an operator asks",
	},

	{
		pkg:    "examples/...",
		may:    []string{"pkg/...", "examples/..."},
		reason: "an example shows what a user can write, and a user has the public packages",
	},
	{
		pkg:    "internal/faultnet",
		never:  []string{"external"},
		reason: "it breaks connections for tests, and knows nothing of what runs over them",
	},
	{
		pkg:    "internal/testca",
		never:  []string{"external"},
		unless: []string{"github.com/stretchr/testify/require"},
		reason: "it makes certificates for tests, and knows nothing of who uses them",
	},
	{
		pkg:    "internal/conform",
		reason: "it has tests only, and nothing to import",
	},
	{
		pkg:    "internal/archtest",
		reason: "it reads the others, and imports none of them",
	},
	{
		pkg:    "test/...",
		may:    []string{"pkg/...", "internal/...", "proto/...", "test/..."},
		reason: "tests from outside use what is there; nothing uses them",
	},
}

var reserves = []reserve{
	{
		imports: []string{"proto/..."},
		only:    []string{"proto/...", "pkg/wire", "pkg/node", "cmd/sluicectl/...", "internal/cli/...", "test/..."},
		reason:  "generated types stay behind the packages that speak the protocol",
	},
	{
		imports: []string{"github.com/spf13/...", "go.yaml.in/...", "gopkg.in/yaml.v3", "github.com/expr-lang/..."},
		only:    []string{"cmd/...", "internal/...", "test/..."},
		reason:  "who imports the library does not get what only the programs need",
	},
}

// Names that say nothing about what is inside.
var badNames = []string{"util", "common", "types", "misc", "models"}
