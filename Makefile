# Two commands matter: `make demo` and `make test`. Each works alone on a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
# Any torch build serves; name another here, for example TORCH="torch --index-url <your index>".
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
# A file runs in one process, so that what its tests share is set up once; tests/conftest.py has the order.
# A worker that dies ends the run: its file would be begun anew with the same end.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Where this is set every process compiles torch and Ray anew, which takes longer than what it runs.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup demo test test-long lint bench chaos faults manifests audit docs rom clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

setup: $(VENV)/.base  ## the environment in .venv, nothing else

demo: $(VENV)/.base  ## play the bundled game: train, judge, reward model, shaped training
	$(BIN)/questloop demo $(ARGS) || [ $$? = 75 ]  # 75: stopped, and goes on another time

test: $(VENV)/.dev lint  ## every check, and the tests of which none takes long
	$(PYTEST) -m "not long and not full" $(ARGS)

test-long: $(VENV)/.dev  ## the rest: kill -9 in every stage, S3, Ray cluster, container, chaos, sweeps
	$(PYTEST) -m "long and not full" $(ARGS)

lint: $(VENV)/.dev  ## style, types and the floors of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n 2
	$(BIN)/lint-imports

$(VENV)/.base: pyproject.toml requirements.lock
	@echo "installing into $(VENV); some minutes, silent while it downloads"
	@$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --no-compile -c requirements.lock $(TORCH)
	$(BIN)/pip install -q --no-compile -c requirements.lock -e '.[video,fleet]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/pip install -q --no-compile -c requirements.lock -e '.[dev]'
	@touch $@

bench: $(VENV)/.base  ## install the peers, measure, write build/bench.json
	$(BIN)/pip install -q -c requirements.lock -e '.[peers]'
	$(BIN)/questloop bench --json --output build/bench.json $(ARGS)

chaos: $(VENV)/.dev  ## the fleet under faults; SEED=0 SCALE=small|full; the last line is JSON
	$(BIN)/python -m tests.fleet.chaos --seed $(or $(SEED),0) --scale $(or $(SCALE),small)

faults: $(VENV)/.dev  ## the loop under faults; SEED=0 SCALE=small|full or POINTS=200 kills; the last line is JSON
	$(BIN)/python -m tests.faults --seed $(or $(SEED),0) --points $(or $(POINTS),$(if $(filter small,$(SCALE)),12,200))

manifests: $(VENV)/.dev  ## render every overlay into build/manifests and check it
	$(BIN)/python scripts/render_manifests.py

# --strict: a package that the package index does not answer for is a failure, not a line in a table.
audit: $(VENV)/.dev  ## known weaknesses of the pinned packages; asks the package index for its advisories
	$(BIN)/pip install -q pip-audit
	$(BIN)/pip-audit --strict -r requirements.lock --no-deps --disable-pip

docs: $(VENV)/.dev  ## build the documentation as a site into build/site; a broken link or an orphan fails
	$(BIN)/python scripts/docs_site.py

clean:  ## remove what was built
	rm -rf $(VENV) build

rom:  ## rebuild the bundled game (needs sdcc 4.2.0) and put it into the package
	$(PYTHON) games/mossgrove/build.py --ship
