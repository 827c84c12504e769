# Every target that a person calls has a line in `make help`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TOOL := go tool -modfile=tools/go.mod

.PHONY: help
help: ## show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: ## the main job, told step by step on a real Kubernetes and a real PostgreSQL (KEEP=1 leaves it running)
	@dev/setup demo
	@go run ./dev/demo

.PHONY: test
test: setup-test kubernetes ## all tests, with the race detector, on real servers; installs what it lacks
	go test -race -timeout 25m ./...
	cd dev/cluster && go test -race -timeout 15m ./...

.PHONY: fuzz
fuzz: ## each fuzz test for 30 seconds
	@for target in FuzzClaim FuzzName FuzzPassword FuzzDSN; do go test ./internal/postgres -run '^$$' -fuzz "^$$target$$" -fuzztime 30s || exit 1; done
	go test ./internal/credentials -run '^$$' -fuzz '^FuzzURLs$$' -fuzztime 30s

.PHONY: bench
bench: kubernetes ## measure the program beside the bare statements; docs/performance.md explains the table
	@dev/setup test
	@go run ./test/bench

.PHONY: lint
lint: ## golangci-lint, kube-api-linter, shellcheck where it is installed, and whether generated files are current
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./... && cd dev/cluster && go vet ./...
	$(TOOL) golangci-lint run ./...
	$(TOOL) golangci-lint-kube-api-linter run --config .golangci-kal.yml ./api/...
	@if command -v shellcheck >/dev/null; then shellcheck dev/setup .ci/run; fi
	@$(MAKE) --no-print-directory generate && git diff --exit-code --stat -- api

.PHONY: generate
generate: ## make the deep copies and the CustomResourceDefinitions from api/
	$(TOOL) controller-gen object paths=./api/... crd output:crd:dir=api/crds

.PHONY: build
build: ## build bin/databases
	CGO_ENABLED=0 go build -trimpath -o bin/databases ./cmd/databases

.PHONY: install
install: ## install the CustomResourceDefinitions into the cluster of your kubeconfig
	kubectl apply --server-side -f api/crds

.PHONY: run
run: ## run the controller on this machine against the cluster of KUBECONFIG; see databases --help for its settings
	go run ./cmd/databases

.PHONY: cluster-start cluster-stop
cluster-start: kubernetes ## start a Kubernetes control plane to try things on, and print how to use it
	@go run -C dev/cluster . start
cluster-stop: ## stop it
	@go run -C dev/cluster . stop

.PHONY: kubernetes setup-test
kubernetes: # built once, then cached outside the checkout
	@go run -C dev/cluster . build >/dev/null
setup-test:
	@dev/setup test
