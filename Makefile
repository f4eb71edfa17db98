# Everything a fresh clone needs is python3, make and Java (Java only for the Spark and TLA parts).
# `make demo` and `make test` build their own virtual environment in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PEERS  := .venv-peers
# Hundreds of processes import the sources, Spark's workers above all: they are compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Tests wait for disks, servers and JVMs as much as they compute: three processes for each core.
TESTERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 3 * (os.cpu_count() or 1)))')

.PHONY: help setup demo test test-all lint format bench bench-full bench-peers proofs mutants clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What is imported is compiled then, and most of it never is: pip would compile everything.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crdtcat needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	$(BIN)/python -m proofs.tools
	@touch $(STAMP)

setup: $(STAMP)  ## Make .venv with everything the other targets need

demo: setup  ## A Spark pipeline: tasks that commit at once, a stream, readers, compaction, verification
	$(BIN)/python -m examples.demo

# Each tester collects all tests, and where nothing is compiled, they would all compile everything at once.
# What cannot be collected is told of by the tests themselves.
COMPILE_TESTS := $(BIN)/python -m pytest --collect-only -qq >/dev/null

test: setup  ## All tests, slow suites bounded
	@-$(COMPILE_TESTS)
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadscope

test-all: setup  ## All tests, slow suites in full
	@-$(COMPILE_TESTS)
	CRDTCAT_SLOW=full $(BIN)/python -m pytest -n $(TESTERS) --dist loadscope

lint: setup  ## ruff and mypy, no warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## Let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(PEERS)/.installed: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --requirement benchmarks/peers.txt
	@touch $@

bench-peers: $(PEERS)/.installed  ## The peers' own environment, for the benchmarks

bench: setup bench-peers  ## Measure against peers, short sizes
	$(BIN)/python -m benchmarks

bench-full: setup bench-peers  ## The same at full size, hours; run again, it goes on where it was ended
	$(BIN)/python -m benchmarks --full --resume

proofs: setup  ## Machine-checked proofs and models
	$(BIN)/python -m proofs

mutants: setup  ## Mutation testing of the core, in full: one to two hours
	$(BIN)/python -m proofs.mutants_runner

clean:  ## Remove everything that make made
	rm -rf $(VENV) $(PEERS) proofs/.tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
