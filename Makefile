# Everything a fresh clone needs is python3, make and Java (Java only for the Spark and TLA parts).
# `make demo` and `make test` build their own virtual environment in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help setup demo test test-all lint format bench proofs clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crdtcat needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

setup: $(STAMP)  ## Make .venv with everything the other targets need

demo: setup  ## Several processes commit at once; two readers converge
	$(BIN)/python -m examples.demo

test: setup  ## All tests, slow suites bounded
	$(BIN)/python -m pytest -n 2

test-all: setup  ## All tests, slow suites in full
	CRDTCAT_SLOW=full $(BIN)/python -m pytest -n 2

lint: setup  ## ruff and mypy, no warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## Let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## Measure, print tables
	$(BIN)/python -m benchmarks

proofs: setup  ## Machine-checked proofs and models
	$(BIN)/python -m proofs

clean:  ## Remove everything that make made
	rm -rf $(VENV) proofs/.tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
