# The one place of commands. All read libpq's PG* variables; those that need a server of their own
# take the private cluster that `make db` keeps under .pg/.

.DEFAULT_GOAL := help
SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules --no-print-directory
.NOTPARALLEL:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
WITH_DB := set -a && . .pg/env && set +a &&
TESTS ?= tests

.PHONY: help
help: ## Say what there is to do
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | awk -F '|' '{ printf "make %-9s %s\n", $$1, $$2 }'

.PHONY: run
run: $(READY) ## See it work: replay real purchases on a server of its own
	$(BIN)/pgwhen demo

.PHONY: test
test: lint db ## Set up, lint, check the generated docs, and run all tests
	$(WITH_DB) $(BIN)/python scripts/docs.py --check
	$(WITH_DB) $(BIN)/python -m pytest $(TESTS)

.PHONY: soak
soak: db ## Run the same tests with their full counts
	$(WITH_DB) PGWHEN_SOAK=1 $(BIN)/python -m pytest --timeout=0 $(TESTS)

.PHONY: test-sql
test-sql: db ## Run the pgTAP files only
	$(WITH_DB) $(BIN)/python -m pytest tests/sql

.PHONY: test-py
test-py: db ## Run everything but the pgTAP files
	$(WITH_DB) $(BIN)/python -m pytest $(TESTS) --ignore=tests/sql

.PHONY: db
db: $(READY) ## Start a private cluster under .pg/, deployed; its PG* lines go to .pg/env
	@$(BIN)/python scripts/cluster.py start

.PHONY: db-stop
db-stop: $(READY) ## Stop the private cluster; its data stays
	@$(BIN)/python scripts/cluster.py stop

.PHONY: db-drop
db-drop: $(READY) ## Remove the private cluster with its data
	@$(BIN)/python scripts/cluster.py drop

.PHONY: deploy
deploy: $(READY) ## Deploy to the database that the PG* variables name
	$(BIN)/pgwhen deploy

.PHONY: lint
lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/sqlfluff lint --processes 2 sql migrations tests/sql

.PHONY: fmt
fmt: $(READY) ## Put the code in the house style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/sqlfluff fix --processes 2 sql migrations tests/sql

.PHONY: docs
docs: db ## Write docs/reference.md and docs/schema.md anew from the catalog
	$(WITH_DB) $(BIN)/python scripts/docs.py

.PHONY: dist
dist: $(READY) ## Build dist/: one SQL file for psql, and the wheel
	$(BIN)/python scripts/dist.py

.PHONY: bench
bench: db ## Measure, beside peers; prints name, value, goal and verdict of each ratio
	$(WITH_DB) $(BIN)/python bench/run.py

.PHONY: example
example: $(READY) ## Run an example, and check its totals: make example NAME=follow_up
	$(BIN)/python examples/$(or $(NAME),$(error say which with NAME=, one of: $(notdir $(wildcard examples/*))))/run.py

.PHONY: clean
clean: ## Remove what was built, the private cluster included
	@[ ! -x $(BIN)/python ] || $(BIN)/python scripts/cluster.py drop
	rm -rf $(VENV) .venv-peers dist .*_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo 'pgwhen needs Python 3.10 or newer: make PYTHON=…' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || scripts/packages python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,embedded]'
	@touch $@
