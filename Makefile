# Two commands on a fresh machine: `make demo` and `make test`. Everything is built into .venv/.

PYTHON ?= python3
SEEDS ?= 2000
RUNS ?= 1
ONLY ?=
SHOTS ?=
MINUTES ?= 30
JOBS ?= 20000
KEEP ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests mostly wait for other processes, so two more test processes than there are cores.
AT_ONCE = $(shell $(BIN)/python -c "import os; print(2 + (os.cpu_count() or 1))")
# Compiled modules make every start of the command half a second faster.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick check format bench sim sim-real mutants chaos api soak ui browser docs wheel lock clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ui ## Stack and register flood maps, with faults (KEEP=1: leave the web UI up until Ctrl-C)
	@echo "==> Demo: from flood maps to a catalog, on an embedded Postgres. All files stay in .holdfast/"
	@$(BIN)/holdfast demo flood $(if $(KEEP),--keep)

test: check ui ## Check the code, then run all tests (ONLY=PATH: only these)
	@$(if $(ONLY),:,$(BIN)/python scripts/ui test)
	@echo "==> Tests"
	@$(BIN)/pytest -q -n $(AT_ONCE) --dist worksteal $(ONLY)
	@$(if $(ONLY),:,$(MAKE) --no-print-directory sim)

quick: check ## Check the code, then run the tests that need no database, in under a minute
	@echo "==> Quick tests"
	@$(BIN)/pytest -q -n $(AT_ONCE) tests/core tests/define
	@$(MAKE) --no-print-directory sim SEEDS=300

check: $(READY) ## Format, lint, types, import rules, sizes, words
	@echo "==> Checking format, lint, types, import rules, sizes and words"
	@$(BIN)/ruff format --check --quiet . || { echo "Run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	@$(BIN)/python scripts/sizes
	@$(BIN)/python scripts/prose
	@$(BIN)/python scripts/ui check

ui: $(READY) ## Build the web UI from ui/, unless it is up to date
	@$(BIN)/python scripts/ui build

format: $(READY) ## Format the code
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

bench: $(READY) ## Measure the engine, and compare it with the limit of this machine
	@$(BIN)/python -m bench $(BENCH)

sim: $(READY) ## Simulate SEEDS worlds full of faults (default 2000)
	@echo "==> Simulating $(SEEDS) seeds"
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

sim-real: SEEDS := 100
sim-real: $(READY) ## The same on a real Postgres; the seed decides the order of statements (default 100)
	@echo "==> Running $(SEEDS) seeds on a real Postgres"
	@$(BIN)/python -m tests.interleaving --seeds $(SEEDS)

mutants: $(READY) ## Break the code on purpose, in many places: the tests must notice every breakage
	@$(BIN)/python -m tests.simulation.mutants

chaos: $(READY) ui ## Run the slow tests, then inject every fault into real processes, RUNS times each (ONLY=NAME)
	@$(if $(ONLY),:,$(BIN)/pytest -q -n $(AT_ONCE) --dist worksteal -m chaos)
	@$(BIN)/python -m tests.chaos --runs $(RUNS) $(if $(ONLY),--only "$(ONLY)")
	@$(if $(ONLY),:,$(MAKE) --no-print-directory api)

api: $(READY) ## Flood the HTTP service, and send generated requests to each of its operations
	@$(BIN)/pytest -q -s -p no:randomly tests/service/floods.py
	@$(BIN)/python -m tests.service.every_operation

browser: $(READY) ui ## Test the web UI in a real browser (ONLY=PATH; SHOTS=FOLDER for screenshots)
	@SHOTS="$(if $(SHOTS),$(abspath $(SHOTS)))" $(BIN)/pytest -q -n $(AT_ONCE) --dist worksteal -m "" $(or $(ONLY),tests/browser)

soak: $(READY) ## Inject faults for MINUTES (default 30) while JOBS jobs run
	@$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES) --jobs $(JOBS)

docs: $(READY) ## Renew the generated pages of the documentation
	@$(BIN)/python scripts/docs

wheel: $(READY) ## Build a wheel into dist/, to install it elsewhere
	@$(BIN)/python -m hatchling build -t wheel -d dist

lock: $(READY) ## Update the locked dependencies
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --upgrade --group dev pyproject.toml -o requirements-dev.txt

clean: ## Remove everything that the other targets made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .holdfast dist ui/node_modules src/holdfast/_ui

$(READY): requirements-dev.txt pyproject.toml scripts/setup scripts/install
	@PYTHON="$(PYTHON)" scripts/setup $(VENV)
	@touch $@
