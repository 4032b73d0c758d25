# Nothing here is needed to use sluice: `go build ./...` and `go test ./...` work
# by themselves. Every tool is pinned in tools/ and built when it is first used;
# for buf, which only `generate`, `check-generate` and `check-breaking` need, that
# takes some minutes.

.DEFAULT_GOAL := help

FUZZTIME ?= 10s
AGAINST  ?= main

BUF         := go tool -modfile=tools/buf/go.mod buf
STATICCHECK := go tool -modfile=tools/lint/go.mod staticcheck

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build sluice-node and sluicectl into bin/
	go build -o bin/ ./cmd/sluice-node ./cmd/sluicectl

.PHONY: test
test: ## run all tests
	go test ./...

.PHONY: race
race: ## run all tests with the race detector
	go test -race ./...

.PHONY: e2e
e2e: ## run only the tests with real processes, all of them anew
	go test -count=1 ./test/e2e/...

.PHONY: soak
soak: ## break and kill pipelines of real processes, and check what they promise; FLAGS='-for 10m -seed 42'
	go run ./test/soak $(FLAGS)

.PHONY: netns
netns: ## break a real network between real nodes, in network namespaces; as root, with ip and tc
	go run ./test/netns

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; \
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			echo "$$file: $$target"; \
			go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) ./$$(dirname $$file); \
		done; \
	done

.PHONY: bench
bench: ## measure sluice beside what a user would pick instead; half an hour
	cd bench && go run .

.PHONY: fmt
fmt: ## format the Go code
	gofmt -l -w .

.PHONY: lint
lint: check-digest ## check format, go vet, staticcheck and the digest
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || \
		{ echo "Not formatted, run 'make fmt':"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...

.PHONY: generate
generate: ## write the generated code and its digest, from the .proto files
	$(BUF) lint
	$(BUF) generate
	tools/gen/digest write

.PHONY: check-generate
check-generate: ## generate elsewhere, and compare with what is committed
	$(BUF) lint
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(BUF) generate -o "$$dir" && \
	diff -r -x '*.proto' -x generated.sum "$$dir/proto" proto || \
		{ echo "The generated code is not what buf writes: run 'make generate'."; exit 1; }
	tools/gen/digest check

.PHONY: check-digest
check-digest: ## check in no time that the code was generated from these .proto files
	tools/gen/digest check

.PHONY: check-breaking
check-breaking: ## check that the protocol can still talk to AGAINST (main)
	$(BUF) breaking --against '.git#branch=$(AGAINST)'
