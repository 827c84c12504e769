# Every target that a person calls has a line in `make help`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TOOL := go tool -modfile=tools/go.mod
# Run by their version: needed seldom, and with dependencies of their own.
SBOM := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
VULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help
help: ## show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: ## the main job, told step by step on a real Kubernetes and a real PostgreSQL (KEEP=1 leaves it running)
	@dev/setup demo
	@if [ "$$(uname)$$(id -u)" = Linux0 ]; then dev/setup pods || true; fi # without these it leaves out what needs pods
	@go run ./dev/demo

.PHONY: test
test: setup-test kubernetes ## all tests, with the race detector, on real servers; installs what it lacks
	go test -race -timeout 25m ./...
	cd dev/cluster && go test -race -timeout 15m ./...
	cd dev/chart && go test -count=1 -timeout 25m ./... # what these two read lies outside their modules, where the cache of results does not look
	cd dev/monitoring && go test -count=1 -timeout 25m ./...

.PHONY: e2e
e2e: setup-test kubernetes ## the program on a real node: pods, volumes, PostgreSQL images; needs Linux and root (RUN=TestLab for one case)
	@dev/setup pods
	@go run -C dev/cluster . build --node >/dev/null
	cd test/e2e && go test -tags e2e -count=1 -parallel 3 -timeout 100m $(if $(RUN),-run '$(RUN)')

.PHONY: chaos
chaos: setup-test kubernetes ## faults for hours, if you like: ROUNDS=20 SEED= PARALLEL= FAULTS=cut-off,… DURABILITY=Async REPORT=FILE LOGS=1; needs Linux and root
	@dev/setup pods
	@go run -C dev/cluster . build --node >/dev/null
	@report='$(abspath $(or $(REPORT),bin/chaos/$(shell date -u +%Y%m%d-%H%M%S).json))'; cd test/e2e && go test -tags e2e -count=1 -timeout 0 -run '^TestChaos$$' -args \
		-chaos.rounds='$(or $(ROUNDS),20)' -chaos.report="$$report" $(if $(SEED),-chaos.seed='$(SEED)') $(if $(PARALLEL),-chaos.parallel='$(PARALLEL)') \
		$(if $(LOGS),-chaos.logs) $(if $(FAULTS),-chaos.faults='$(FAULTS)') $(if $(DURABILITY),-chaos.durability='$(DURABILITY)'); status=$$?; echo "$$report"; exit $$status

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
	go vet ./... && (cd dev/cluster && go vet ./...) && (cd dev/monitoring && go vet ./...) && cd dev/chart && go vet ./...
	$(TOOL) golangci-lint run ./...
	$(TOOL) golangci-lint-kube-api-linter run --config .golangci-kal.yml ./api/...
	@if command -v shellcheck >/dev/null; then shellcheck dev/setup .ci/run deploy/*.sh deploy/kind/*.sh deploy/kind/postgres/*.sh; fi
	@$(MAKE) --no-print-directory generate && git diff --exit-code --stat -- api deploy/chart deploy/kustomize/components deploy/monitoring

.PHONY: generate
generate: ## make the deep copies and the CustomResourceDefinitions from api/, the chart from deploy/kustomize, and the dashboard
	$(TOOL) controller-gen object paths=./api/... crd output:crd:dir=api/crds
	go run -C dev/chart .
	go run -C dev/monitoring .

.PHONY: build
build: ## build bin/databases
	CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -o bin/databases ./cmd/databases

.PHONY: chart
chart: ## check the Helm chart and pack it into bin/
	go tool -C dev/chart helm lint --strict ../../deploy/chart
	go tool -C dev/chart helm package ../../deploy/chart --destination ../../bin

.PHONY: sbom
sbom: ## a CycloneDX list of what each program is made of: bin/*.cdx.json
	@GOBIN='$(CURDIR)/bin' go install $(SBOM)
	@for program in databases databases-patroni; do \
		CGO_ENABLED=0 GOOS=linux bin/cyclonedx-gomod app -json -licenses -packages -main "cmd/$$program" -output "bin/$$program.cdx.json" . || exit 1; \
		echo "bin/$$program.cdx.json"; \
	done

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in what the programs call; asks Go's vulnerability database (GOVULNDB for another one)
	@GOBIN='$(CURDIR)/bin' go install $(VULNCHECK) # not go run, which hides the exit status
	@bin/govulncheck $(if $(GOVULNDB),-db '$(GOVULNDB)') ./cmd/...; status=$$?; \
	case $$status in \
	0) ;; \
	3) echo 'vulncheck: the vulnerabilities above are in code that the programs call' >&2; exit 3 ;; \
	*) echo 'vulncheck: no answer: Go'"'"'s vulnerability database must be reachable from here, or set GOVULNDB to the URL of a mirror' >&2; exit $$status ;; \
	esac

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
