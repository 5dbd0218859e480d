# Everything a contributor runs. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help
GO ?= go

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-12s %s\n", $$1, $$2}'

.PHONY: redis-server
redis-server: ## install redis-server where it is missing and can be
	@command -v redis-server >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo "installing redis-server"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server >/dev/null; \
	  else \
	    echo "redis-server is not installed: install it (Debian and Ubuntu: sudo apt-get install redis-server; macOS: brew install redis) and run this again" >&2; \
	    exit 1; \
	  fi; }

.PHONY: test
test: redis-server ## every test, against memory, miniredis, Redis and a Redis Cluster
	BELFRY_TEST_REQUIRE_REDIS=1 $(GO) test -timeout 15m ./...

.PHONY: test-fast
test-fast: ## the tests that need nothing installed
	$(GO) test -short ./...

.PHONY: race
race: redis-server ## every test but the long ones under the race detector
	BELFRY_TEST_REQUIRE_REDIS=1 $(GO) test -short -race -timeout 15m ./...

SEEDS ?= 1000
FIRST_SEED ?= 1

STORE ?= memory

.PHONY: sim
sim: ## fleets under seeded faults: make sim SEEDS=5000 FIRST_SEED=1 STORE=lua
	set -o pipefail; $(GO) test ./internal/simtest/storm -run TestSeeds -v -timeout 0 -seeds $(SEEDS) -first-seed $(FIRST_SEED) -store $(STORE) | grep -v -e '--- PASS' -e '=== '

.PHONY: numbers
numbers: ## measure the table in docs/GUARANTEES.md anew: make numbers SEEDS=100
	$(GO) test ./internal/simtest/storm -run TestNumbers -timeout 0 -update -seeds $(SEEDS) -first-seed $(FIRST_SEED)

.PHONY: record
record: ## put the totals of drawn storms on record in docs/GUARANTEES.md: make record SEEDS=2000
	$(GO) test ./internal/simtest/storm -run TestSeeds -timeout 0 -record -seeds $(SEEDS) -first-seed $(FIRST_SEED) -store $(STORE)

.PHONY: mutants
mutants: ## break one rule after the other and see whether the simulation notices
	$(GO) test ./internal/simtest/storm -run 'TestMutants$$' -v -timeout 0 -mutants

WEATHER ?= 5m
SEED ?= 1
DISK ?= aof

.PHONY: weather
weather: redis-server ## real workers on a real Redis, hurt at random: make weather WEATHER=5m SEED=1 DISK=aof (or rdb, none)
	$(GO) test ./internal/chaos -run 'TestWeather$$' -v -timeout 0 -weather $(WEATHER) -weather-seed $(SEED) -weather-disk $(DISK)

# install COMMANDS,PACKAGES installs what is missing, where it can be.
define install
	@{ $(foreach command,$(1),command -v $(command) &&) true; } >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo "installing $(2)"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null; \
	  else \
	    echo "not all of $(1) are installed (Debian and Ubuntu: sudo apt-get install $(2))" >&2; \
	    exit 1; \
	  fi; }
endef

.PHONY: spin
spin: ## install the model checker where it is missing and can be
	$(call install,spin gcc,spin gcc libc6-dev)

.PHONY: groff
groff: ## likewise what checks the manual pages
	$(call install,groff,groff-base)

.PHONY: promtool
promtool: ## likewise what checks the rules for alerts
	$(call install,promtool,prometheus)

.PHONY: model
model: spin ## let spin check the models in docs/model, the large ones too (10 min, 2 GB)
	BELFRY_TEST_REQUIRE_SPIN=1 $(GO) test ./internal/modelcheck -v -timeout 0 -full | grep -v '=== '

.PHONY: bench
bench: redis-server ## benchmarks, each beside its limit or its peer in the same run
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 15m ./bench/...
	$(GO) test -run '^$$' -bench . ./pkg/schedule/

.PHONY: recording
recording: ## record a session of admin against a demo worker anew (needs tmux): docs/recording
	$(GO) run ./internal/recording docs/recording

.PHONY: fuzz
fuzz: ## every fuzz target, 30 s each
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$pkg || exit 1; \
	  done; done

.PHONY: lint
lint: ## formatting, vet and the house rules
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) test ./internal/repolint/

.PHONY: generate
generate: ## write the generated documents anew
	$(GO) test ./scripts/lua/ ./internal/config/ -run 'Doc|Generated|Protocol|Configuration' -update
	$(GO) run ./internal/gendocs docs/cli

.PHONY: verify
verify: ## module sums, tidiness and generated documents are in order
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) test ./scripts/lua/ ./internal/config/ ./internal/gendocs/ -run 'Doc|Generated|Protocol|Configuration|Reference'

.PHONY: build
build: ## static binaries in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/worker ./cmd/admin

.PHONY: demo
demo: ## the main job, embedded: schedules fire and run, nothing installed
	$(GO) run ./cmd/worker --demo

.PHONY: check
check: lint verify test ## what CI runs
