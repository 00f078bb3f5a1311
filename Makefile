# make advise: the main job on the example sample.   make test: everything that CI checks.   make bench: speed, as JSON.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
EXAMPLE := data/example_prompts.jsonl --target meta-llama/Llama-3.1-8B-Instruct --gpu H200 --concurrency 16

# What failed beside other tests must pass alone, where nothing competes for two cores; the first run's report stays.
AGAIN := $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

.PHONY: advise test lint types bench soak constraints clean

advise: $(VENV)/runtime
	$(BIN)/specworth advise $(EXAMPLE)

# A CPU build of vLLM for tests/real_vllm is installed once, into a cache folder that later runs find again; PostgreSQL
# for the tests of the service and Chromium for those of the pages come from the system's packages where they are missing
# (as root, or by sudo).
test: lint types
	@$(BIN)/python -m tests.postgresql
	@$(BIN)/python -m tests.chromium
	@$(BIN)/python tests/real_vllm/install.py > /dev/null
	$(BIN)/python -m pytest -q -n 2 --no-loadscope-reorder --durations=20 || $(AGAIN)

lint: $(VENV)/development
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

types: $(VENV)/development
	$(BIN)/mypy

bench: $(VENV)/development
	@for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

# Ten minutes of load: does the service's memory stay flat?
soak: $(VENV)/development
	$(BIN)/python benchmarks/soak.py

constraints: $(VENV)/development
	$(BIN)/python -m pip freeze --exclude-editable | sed '1i # Versions that the tests pass with, for pip'"'"'s --constraint. Renewed by: make constraints' > constraints.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist

$(VENV)/created:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else "specworth needs Python 3.11 to 3.13; $(PYTHON) is %d.%d; name another with: make PYTHON=python3.12 ..." % v)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/runtime: $(VENV)/created pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/development: $(VENV)/runtime
	$(PIP) -e '.[dev]'
	@touch $@
