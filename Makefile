# "make" lists the targets. The work is in scripts/, which need no make.

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := $(CURDIR)/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint

FUZZTIME ?= 20s
BENCH ?= .

.DEFAULT_GOAL := help
.PHONY: help test quick tidy lint bench fuzz kill9 serve

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: ## everything: format, vet, all tests of all modules against real services
	scripts/test.sh

quick: ## the root module's tests, without services
	go test ./...

tidy: ## the repository's own rules; tidies go.mod files first
	scripts/each-module.sh go mod tidy
	go test -count=1 ./internal/tidy

lint: $(GOLANGCI_LINT) ## tidy go.mod files, and golangci-lint over all modules; builds it the first time
	scripts/each-module.sh go mod tidy -diff
	scripts/each-module.sh $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...

$(GOLANGCI_LINT):
	cd / && GOBIN=$(dir $@) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

bench: ## benchmarks of all modules; BENCH=regexp selects
	scripts/services.sh run -- scripts/each-module.sh go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

fuzz: ## every fuzz test for FUZZTIME (20s) each
	scripts/fuzz.sh $(FUZZTIME)

kill9: ## only the tests that kill real processes (TestKill9...)
	scripts/test.sh --run 'Kill9'

serve: ## run the system with its embedded defaults
	go run ./cmd/retryproof serve
