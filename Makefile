# The single door. Every target makes the virtual environment it needs from the
# lock files in requirements/, so a fresh clone needs only Python 3.11+, make and
# the package registry that pip is configured for.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Parallel test workers: one more than the two cores that the suite is sized for, because a fifth of the time tests
# wait for servers, other processes and deadlines.
WORKERS ?= 3
# Side by side in make soak and make mutants, which wait for nothing.
LANES ?= 2
# How long make soak runs.
MINUTES ?= 10
# Extra arguments for pytest: make test ARGS="-k btree -x"
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all soak mutants check format docs bench lock clean java

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo java ## set up, then show in about a minute what works
	@$(BIN)/python -m examples.demo

test: $(VENV)/.dev java ## set up, then run all tests but the long ones
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope -m "not long" $(ARGS)

test-all: $(VENV)/.dev java ## the same with the long ones, more examples, and every fault at every request where one in several is tried otherwise
	@WORMDB_STRIDE=1 WORMDB_HYPOTHESIS=more $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope $(ARGS)

soak: $(VENV)/.dev ## simulations, properties and killed processes with new seeds: make soak MINUTES=60
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --lanes $(LANES)

mutants: $(VENV)/.dev ## apply each listed mistake to a copy, and see that the tests named with it fail
	@$(BIN)/python -m tests.mutation --lanes $(LANES)

check: $(VENV)/.dev ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev ## write the generated reference pages
	$(BIN)/python -m docs.generate

bench: $(VENV)/.bench ## print ratios against stated references, taken in one run
	@$(BIN)/python -m benchmarks $(ARGS)

java: ## say whether Spark's Java is there, and how to get it
	@command -v java >/dev/null 2>&1 || { echo "Spark needs Java 17: install it with 'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu) or 'brew install openjdk@17' (macOS), then run make again." >&2; exit 1; }

lock: $(VENV)/.dev ## resolve the lock files again from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade requirements/build.in -o requirements/build.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade pyproject.toml -o requirements/core.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade --extra all --extra dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade --extra demo --constraint requirements/dev.txt pyproject.toml -o requirements/demo.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade --extra bench --constraint requirements/dev.txt pyproject.toml -o requirements/bench.txt

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment -------------------------------------------------

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "wormdb needs Python 3.11 or newer; '$(PYTHON)' is older. Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made requirements/build.txt requirements/core.txt pyproject.toml
	@$(PIP) install --require-hashes -r requirements/build.txt -r requirements/core.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.demo: $(VENV)/.core requirements/demo.txt
	@echo "installing Spark and the data of the demo (about 500 MB, once) ..."
	@$(PIP) install --require-hashes -r requirements/demo.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.txt
	@echo "installing the test tools (Spark among them: about 500 MB, once) ..."
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	@echo "installing what the benchmarks compare with (about 250 MB, once) ..."
	@$(PIP) install --require-hashes -r requirements/bench.txt
	@touch $@
