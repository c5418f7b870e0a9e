# Everything on a fresh machine: Python 3.11 to 3.13 with venv and pip is all that must be there.
#   make run     the demonstration: real flights, a real kill -9, nothing lost
#   make run-spark                     the same with Spark before and beside it; needs Java 17 or newer as well
#   make test    the fast lane of the tests: one row of each, ARGS=--rest plays the others
#   make test-slow, make lint, make bench
#   make test-spark                    the tests with a real Spark; needs Java 17 or newer as well
#   make docs, make stubs             write anew what is made of the operators: their reference, and their types as methods
#   make conformance RXPY=DIRECTORY    RxPY's own test-suite, out of a checkout, against our operators
# PYTHON=... chooses the interpreter that .venv is made with; ARGS=... goes to the command that is run.

FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(FITS)' 2>/dev/null && echo "$$p" && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run run-spark java test test-slow test-spark conformance lint mutants bench docs stubs clean
.SECONDARY:

run: $(VENV)/.installed-demo
	$(BIN)/reliable-rx demo $(ARGS)

run-spark: $(VENV)/.installed-demo java $(VENV)/.installed-spark
	$(BIN)/reliable-rx demo --spark $(ARGS)

# Says what to do where there is no Java that Spark can use, before anything large is fetched.
java: $(VENV)/.made
	@$(BIN)/python -m spark_bridge.session

# Where Python is told to keep no bytecode, every worker would rewrite the assertions of all tests in every run.
test test-slow test-spark: export PYTHONDONTWRITEBYTECODE =

# The stores of the fast lane are in memory, where that has a gigabyte for them: a disk that syncs each commit costs a
# tenth of the processor and half a minute. The other lanes have theirs on the disk.
MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'END { if ($$4 > 1000000) print "/dev/shm" }')

# Three workers for two cores, since some tests wait: for processes, and for time.
test: $(VENV)/.installed-test
	$(addprefix TMPDIR=,$(MEMORY)) $(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow" $(ARGS)

# The night draws anew: SEED=... repeats what it is seen to be called with. A part of it, by ARGS=..., draws the same always.
SEED ?= $(shell date +%s)
test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 -m "slow or hypothesis" $(or $(ARGS),--hypothesis-seed=$(SEED))

# One session of Spark for all that need one, and beside it, one after the other, what has processes of its own: kills,
# and the pages of docs/ that show Spark. Each of these starts is for a few small batches: so the compiler is one that is
# quick to start, and classes that were read once are kept. A Java other than the one that kept them reads its own.
QUICK_TO_START := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable
test-spark: export SPARK_SUBMIT_OPTS = $(QUICK_TO_START) -XX:SharedArchiveFile=$(abspath $(VENV))/spark.jsa
test-spark: $(VENV)/.installed-test java $(VENV)/.installed-spark $(VENV)/spark.jsa
	$(BIN)/python -m pytest -n 2 -m spark $(or $(ARGS),tests/spark tests/test_docs.py)

$(VENV)/spark.jsa: $(VENV)/.installed-spark
	@echo "starting Spark once, to keep its classes in $@"
	@SPARK_SUBMIT_OPTS="$(QUICK_TO_START) -XX:ArchiveClassesAtExit=$(abspath $@)" \
		$(BIN)/python tests/spark/leave_classes.py 2> $@.log || { cat $@.log >&2; exit 1; }

conformance: $(VENV)/.installed-test
	@test -n "$(RXPY)" || { echo "make: say RXPY=DIRECTORY, a checkout of RxPY (tests/conformance/fetch gets one)" >&2; exit 1; }
	$(BIN)/python tests/conformance/run.py "$(abspath $(RXPY))"

lint: $(VENV)/.installed-test $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

# A seeded sample of small wrong changes, and which of them the tests notice; takes a night, can be stopped, and goes on
# where it was: ARGS="--count 300 --seed 1".
mutants: $(VENV)/.installed-test
	$(BIN)/python tests/quality/mutation/hunt.py $(ARGS)

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/throughput.py $(ARGS)
	$(BIN)/python benchmarks/density.py $(ARGS)
	$(BIN)/python benchmarks/checkpoint.py $(ARGS)
	$(BIN)/python benchmarks/operators.py
	$(BIN)/python benchmarks/postgres.py $(ARGS)

# Write docs/reference/ anew from the docstrings; a test holds it to them.
docs: $(VENV)/.installed-test
	$(BIN)/python docs/generate.py

# Write anew what type checkers know of the methods of a query; a test holds it to the operators.
stubs: $(VENV)/.installed-test
	$(BIN)/python tests/fluent_stub.py

# A stamp per extra: it is as old as the installation, so only a changed pyproject.toml installs again.
$(VENV)/.installed-%: pyproject.toml $(VENV)/.made
	@echo "installing reliable-rx[$*] into $(VENV)"
	@$(PIP) install --editable '.[$*]'
	@touch $@

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 to 3.13 found; install one, or say PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c '$(FITS)' || { echo "make: $(PYTHON) is not Python 3.11 to 3.13; say PYTHON=/path/to/python" >&2; exit 1; }
	@echo "making $(VENV) with $$("$(PYTHON)" --version)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
