# gpuguard: everything a checkout needs. `make` alone prints this list.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
READY := .venv/.ready
JOBS ?= auto
MINUTES ?= 10
SEED ?= 1

.PHONY: help setup unit test lint format snapshots demo failure-points bench soak constraints clean packages

help:  ## Print this list
	@awk 'BEGIN {FS = ":.*## "; print "usage: make TARGET\n"} \
		/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Install Debian packages (as root), the virtual environment and gpuguard
	@echo "ready: $(BIN)/gpuguard"

unit: $(READY)  ## Run the unit tests (under 30 s)
	$(BIN)/pytest tests/unit -n $(JOBS) --dist loadfile -q

test: $(READY) lint  ## Run everything: lint, unit, cases, integration, snapshot, system
	scripts/test

lint: $(READY)  ## Check style, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## Sort the imports and lay the code out
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

snapshots: $(READY)  ## Take the screens and golden outputs anew; look at the diff before committing
	$(BIN)/pytest tests/snapshot --snapshot-update

demo: $(READY)  ## Show a running job move between hosts, in the practice fleet (as root)
	@$(BIN)/python scripts/demo

failure-points: $(READY)  ## Cut everything everywhere; write docs/measured/failure-points.md (as root)
	FAILURE_POINTS=all FAILURE_POINTS_TABLE=docs/measured/failure-points.md \
		$(BIN)/pytest tests/system/test_failure_points.py -q

bench: $(READY)  ## Measure against the rivals and write docs/measured/bench.md (as root)
	@$(BIN)/python scripts/bench --write docs/measured/bench.md

soak: $(READY)  ## Break a practice fleet for MINUTES=10 by SEED=1 and check the promises (as root)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

constraints: $(READY)  ## Pin the versions installed now in constraints.txt
	$(BIN)/pip freeze --all --exclude-editable | scripts/pins > constraints.new
	mv constraints.new constraints.txt

clean:  ## Remove what the targets above made in this checkout
	rm -rf .venv build dist *.egg-info htmlcov .coverage .coverage.* \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find gpuguard commands tui inventory tests scripts -name __pycache__ -prune -exec rm -rf {} +

packages:
	@scripts/packages

$(READY): pyproject.toml constraints.txt scripts/environment | packages
	@scripts/environment .venv
	@touch $@
