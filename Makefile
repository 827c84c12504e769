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
	@if [ "$$(uname)$$(id -u)" = Linux0 ]; then dev/setup pods || true; fi # without these it leaves out what needs pods
	@go run ./dev/demo

.PHONY: test
test: setup-test kubernetes ## all tests, with the race detector, on real servers; installs what it lacks
	go test -race -timeout 25m ./...
	cd dev/cluster && go test -race -timeout 15m ./...

.PHONY: e2e
e2e: setup-test kubernetes ## the program on a real node: pods, volumes, PostgreSQL images; needs Linux and root (RUN=TestLab for one case)
	@dev/setup pods
	@go run -C dev/cluster . build --node >/dev/null
	cd test/e2e && go test -tags e2e -count=1 -timeout 50m $(if $(RUN),-run '$(RUN)')

.PHONY: node-test
node-test: setup-test kubernetes ## the tests of the development cluster's node; needs Linux and root
	@dev/setup node
	cd dev/cluster && go test -tags node -timeout 15m ./...
	cd dev/cluster/node && go test ./...

.PHONY: fuzz
fuzz: ## each fuzz test for 30 seconds
	@for target in FuzzClaim FuzzName FuzzPassword FuzzDSN; do go test ./internal/postgres -run '^$$' -fuzz "^$$target$$" -fuzztime 30s || exit 1; done
	go test ./internal/credentials -run '^$$' -fuzz '^FuzzURLs$$' -fuzztime 30s
	go test ./internal/fault -run '^$$' -fuzz '^FuzzParse$$' -fuzztime 30s

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
	@if command -v shellcheck >/dev/null; then shellcheck dev/setup .ci/run deploy/*.sh; fi
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
run: ## run the controller on this machine against the cluster of your kubeconfig; see databases --help for its settings
	@KUBECONFIG="$${KUBECONFIG:-$$HOME/.kube/config}" go run ./cmd/databases

.PHONY: deploy undeploy
deploy: ## run the controller in the cluster of your kubeconfig; IMG, PATRONI_IMG, OVERLAY: see docs/deploy.md
	@IMG='$(IMG)' PATRONI_IMG='$(PATRONI_IMG)' OVERLAY='$(OVERLAY)' deploy/deploy.sh
undeploy: ## remove it again; refuses while there are Databases
	@deploy/undeploy.sh

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
