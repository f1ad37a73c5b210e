# The two commands of the README, and those of every day. Everything happens in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# What a run needs, and what tests and development need besides.
RUN    := $(VENV)/.installed-run
DEV    := $(VENV)/.installed-dev
# What keeps SUMO from running, or nothing.
PROBLEM := from cosim.contract.registry import list_adapters; print(*(one.problem for one in list_adapters() if one.name == "sumo"))
# Bytecode of what is imported is made when it is imported first; making it of everything takes as long as the rest.
PIP    := PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --no-compile --disable-pip-version-check
# One more than two cores have: tests wait for namespaces, sockets and processes half of the time.
JOBS   ?= 3
# Linear algebra in threads of its own fights with the tests beside it, at fifty times the cost for small systems.
export OPENBLAS_NUM_THREADS ?= 1
# Threads of OpenMP (PyTorch, scikit-learn) wait for one another in loops: on busy cores they do little else.
export OMP_NUM_THREADS ?= 1
# The suites start hundreds of processes; without kept bytecode each compiles all sources again, for a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run hello test slow chaos clients long lint docs notebooks bench mutants schema clean

run: $(RUN)  ## Run the city scenario (hello, where SUMO cannot run) and print the results folder and the report's path
	@problem="$$($(BIN)/python -c '$(PROBLEM)')"; scenario=city-edge; \
	[ -z "$$problem" ] || { echo "SUMO does not run here, so hello runs instead of the city: $$problem"; scenario=hello; }; \
	echo "$(BIN)/cosim run scenarios/$$scenario"; $(BIN)/cosim run scenarios/$$scenario

hello: $(RUN)  ## Run the smallest scenario (no SUMO)
	$(BIN)/cosim run scenarios/hello

test: $(DEV)  ## Lint, types and the test suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Tests that come first wait for namespaces and containers: types are examined meanwhile. mypy gives up
	@# when its second process does not start within seconds, as on a busy machine; then it goes on alone.
	@($(BIN)/mypy || $(BIN)/mypy --num-workers 0) > .types.txt 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder -m "not slow and not chaos" $(PYTEST); tests=$$?; \
	wait $$types; types=$$?; echo "mypy:"; cat .types.txt; rm -f .types.txt; \
	[ $$tests = 0 ] && [ $$types = 0 ]

slow: $(DEV)  ## Tests that take more than two seconds of a processor
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --timeout 900 -m "slow and not chaos and not clients" $(PYTEST)

chaos: $(DEV)  ## Tests that kill, hang and starve processes
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m chaos $(PYTEST)

clients: $(DEV)  ## MAVLink clients of others fly our vehicles; makes their environments (network needed)
	COSIM_CLIENTS=1 $(BIN)/python -m pytest -n 3 -m clients tests/clients $(PYTEST)

# Containers, namespaces and clients are one group each, on a worker of its own; the other two compute while these
# wait for the clock, and give way to them: their patience is longer.
long: $(DEV)  ## The slow and the chaos suites and the clients of others side by side
	COSIM_CLIENTS=1 $(BIN)/python -m pytest -n 5 --dist loadgroup --timeout 900 -m "slow or chaos or clients" $(PYTEST)

lint: $(DEV)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: $(DEV)  ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

notebooks: $(DEV)  ## Run the notebooks of the documentation and store their outputs
	$(BIN)/python docs/notebooks/pages.py

bench: $(DEV)  ## Print the tables of all benchmarks
	for name in startup bus remote record sumo radio wifi continuum offloading cosco vehicles; do $(BIN)/python -m benchmarks.$$name || exit 1; echo; done

mutants: $(DEV)  ## Make small mistakes in the source, and count those that the tests notice
	$(BIN)/python -m benchmarks.mutants

schema: $(DEV)  ## Write the JSON schema that editors use, and the page of all keys
	$(BIN)/cosim schema --out docs/schema/scenario.v1.json
	$(BIN)/python tools/keys.py > docs/keys.md

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "continuum-cosim needs Python 3.11 or newer; say which: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Machine code is made of the package's own needs, while pip fetches and unpacks the rest; $(1): adapters, none: all.
define install
	@echo "installing into $(VENV); this takes a minute"
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' > $(VENV)/core.txt
	$(PIP) --requirement $(VENV)/core.txt
	@PYTHONPATH=. $(BIN)/python packaging/precompile.py $(1) & compiling=$$!; \
	$(PIP) --editable '.[$(2)]' && wait $$compiling
	touch $@
endef

$(RUN): pyproject.toml | $(VENV)/bin/python
	$(call install,radio continuum,sumo)

$(DEV): pyproject.toml | $(VENV)/bin/python
	$(call install,,dev)
	touch $(RUN)

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache
