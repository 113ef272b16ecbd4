# One command for each thing to do; CI runs the same ones. `make help` lists them.
#
# Everything is installed into .venv, everything fetched is kept in .cache; both are ignored by git. The versions are those of
# .ci/constraints.txt; pip refuses an archive whose hash is not in .ci/hashes, before it unpacks or runs it.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
export PIP_CACHE_DIR ?= $(CURDIR)/.cache/pip
# Bytecode is kept even where the caller switched that off: without it, each worker of each suite compiles all sources and rewrites
# the assertions of all its tests again, and so does each process that a test starts.
unexport PYTHONDONTWRITEBYTECODE
HASHES := .ci/hashes
INSTALL := $(PIP) install --no-build-isolation --no-deps
INSTALL_LIST := $(INSTALL) --require-hashes --requirement
KERNEL := $(wildcard kafka_remote_client/*/*.pyx kafka_remote_client/*/*.pxi kafka_remote_client/*/*.h)
PYTEST := $(BIN)/python -X dev -m pytest
CAMPAIGN := $(BIN)/python -m tests.support.campaign
SEED ?=
SEEDED = $(if $(SEED),--seed $(SEED))
FAULT ?=
SUITES ?=
SECONDS ?= 20
CELLS ?= all
ARGS ?=
LEDGER ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-fast lint format types bench faults chaos shim-kills broker-versions state-machine properties groups group-machines plain-groups mutants fuzz under-load kernel-coverage pure-python confluent-versions scan-predicates export-kills spark-export-kills resident-memory simulate simulate-bugs supply-chain audit pins docs site changelog clean install artifacts store-servers spark-parts

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-15s %s\n", $$1, $$2 }'

demo: $(VENV)/.demo ## the whole system on this machine: broker, tier and consumer (FAULT=store-down|slow-store|expired-urls)
	$(BIN)/kafka-remote demo $(if $(FAULT),--fault $(FAULT))

test: ## the selection of tests that touches everything, on a fresh machine too; says at the end what it had to skip
	@$(if $(PYTHON),,$(error Python 3.11 or later is not on PATH))
	@$(PYTHON) .ci/suites.py --python $(PYTHON) --selection

test-all: ## all tests and the coverage gates, as CI runs them (SUITES="unit shim" picks some)
	@$(if $(PYTHON),,$(error Python 3.11 or later is not on PATH))
	@$(PYTHON) .ci/suites.py --python $(PYTHON) $(SUITES)

test-fast: $(VENV)/.test ## the tests that start nothing, without coverage
	$(PYTEST) --suite unit --suite records --numprocesses 2 $(ARGS)

lint: $(VENV)/.test ## style, forbidden calls, direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

format: $(VENV)/.test ## rewrites the sources in the one layout
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(VENV)/.test ## the static types
	$(BIN)/mypy

bench: $(VENV)/.test ## reads a real tiered topic through the broker and directly, side by side (ARGS="--megabytes 20" for a quick look)
	$(BIN)/python -m tests.benchmarks.consumer $(ARGS)

fuzz: $(VENV)/.test ## any bytes into whatever reads them, SECONDS=20 for each target; keeps what it finds (SEED=7, ARGS=--sanitize)
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS) $(SEEDED) $(ARGS)

faults: $(VENV)/.test ## the fault matrix, every combination (CELLS=pairs for CI's), torture and cuts, with a line each for the ledger
	$(BIN)/python -m tests.faults.run --cells $(CELLS) $(ARGS)
	$(BIN)/python -X dev -m tests.faults.torture
	$(BIN)/python -X dev -m tests.faults.segment_cuts

chaos: SECONDS = 180
chaos: $(VENV)/.test ## three brokers, a shim and its store killed and paused in turn under load, SECONDS=180, with a line for the ledger
	$(BIN)/python -X dev -m tests.faults.chaos --seconds $(SECONDS) $(SEEDED) $(ARGS)

shim-kills: SECONDS = 300
shim-kills: $(VENV)/.test artifacts ## a shim in front of a real broker, killed every 20 s under load, SECONDS=300 (SEED=7), with a line for the ledger
	$(BIN)/python -X dev -m tests.faults.shim_kills --seconds $(SECONDS) $(SEEDED) $(ARGS)

broker-versions: $(VENV)/.test ## Kafka 3.9 to 4.4 with tier, shim, direct reads, transactions and a denied topic (ARGS=4.0.2), with a line each for the ledger
	$(BIN)/python -X dev -m tests.support.broker_versions $(ARGS)

properties: $(VENV)/.test ## the property tests with new examples (SEED=7 repeats a run); what it finds becomes an @example of its test
	$(CAMPAIGN) properties $(SEEDED) -- -m hypothesis --suite unit --suite records --numprocesses 2 --hypothesis-profile=campaign $(ARGS)

EXAMPLES = 500
state-machine: $(VENV)/.test ## the consumer beside the plain one, command by command, from a random seed: EXAMPLES=500 (SEED=7 repeats a run)
	$(BIN)/python -X dev -m tests.state_machine.run --examples $(EXAMPLES) $(SEEDED) $(ARGS)

groups: $(VENV)/.test artifacts ## groups of four that are rebalanced eleven times, in every protocol, on the real broker
	$(PYTEST) tests/integration/test_group_rebalances.py $(ARGS)

group-machines: $(VENV)/.test artifacts ## random programs of group members that come and go, ours and plain ones, on the real broker (SEED=7)
	$(CAMPAIGN) group-machines $(SEEDED) -- tests/state_machine/test_groups.py --numprocesses 7 --dist load $(ARGS)

plain-groups: $(VENV)/.test artifacts ## the same of plain members alone
	$(CAMPAIGN) plain-groups $(SEEDED) -- --suite plain-groups --numprocesses 4 --dist load $(ARGS)

COUNT = 300
mutants: $(VENV)/.test ## plants bugs that a test must notice: those written by hand, and COUNT=300 that mutmut's operators make (SEED=7 repeats a run)
	$(BIN)/python -m tests.mutants.run --count $(COUNT) $(SEEDED) $(ARGS)

RUNS = 20
LOAD = 4
MINUTES = inf
LOAD_COMMAND ?=
under-load: SUITES = shim consumer faults state-machine broker parity stores spark
under-load: $(VENV)/.test artifacts ## the suites that wait, RUNS=20 times beside LOAD=4 processes that compute (SUITES="consumer faults" or all, MINUTES=60, LOAD_COMMAND="make simulate")
	$(BIN)/python -m tests.support.under_load $(SUITES) --runs $(RUNS) --load $(LOAD) --minutes $(MINUTES) \
		$(if $(LOAD_COMMAND),--load-command '$(LOAD_COMMAND)')

kernel-coverage: $(VENV)/.test ## lines and branches of the compiled record decoder that its tests reach, by gcov
	$(BIN)/python -m tests.records.kernel_coverage

pure-python: $(VENV)/.test ## the record decoder's tests once more without the compiled one
	$(CAMPAIGN) pure-python --fixed -- --suite pure-python $(ARGS)

confluent-versions: $(VENV)/.test ## the consumer's tests on the lowest confluent-kafka that is admitted, and on the newest
	$(CAMPAIGN) confluent-versions --fixed -- --suite confluent-versions $(ARGS)

simulate: SECONDS = 60
simulate: $(VENV)/.test ## the fetch engine's scheduler and the consumer in virtual time, for SECONDS=60 of CPU time (SEED=7 repeats a run)
	$(BIN)/python -m tests.simulation.run --seconds $(SECONDS) $(SEEDED) $(ARGS)

simulate-bugs: SECONDS = 600
simulate-bugs: $(VENV)/.test ## plants bugs in what the simulation runs, and measures how long it needs to find each, SECONDS=600 at most (SEED=7)
	$(BIN)/python -m tests.simulation.bugs --seconds $(SECONDS) $(SEEDED) $(ARGS)

scan-predicates: COUNT = 10000
scan-predicates: $(VENV)/.test ## scans with COUNT=10000 random predicates, each compared with a filter over a full read (SEED=7 repeats a run)
	$(BIN)/python -m tests.support.random_scans --count $(COUNT) $(SEEDED)

POINTS = 180
export-kills: $(VENV)/.test ## exports to Parquet, Iceberg and Delta killed by SIGKILL at POINTS=180 of their operations and run again (SEED=7)
	$(BIN)/python -X dev -m tests.support.export_kills --points $(POINTS) $(SEEDED)

spark-export-kills: POINTS = 20
spark-export-kills: $(VENV)/.test ## exports on a Spark cluster whose driver, executor or worker is killed at POINTS=20 of their operations (SEED=7)
	$(BIN)/python -X dev -m tests.support.spark_export_kills --points $(POINTS) $(SEEDED)

PEERS = 10000
resident-memory: $(VENV)/.test ## the memory of a shim with PEERS=10000 that never read, or never finish a TLS handshake (SEED=7)
	$(BIN)/python -m tests.support.resident_memory --peers $(PEERS) $(SEEDED)

supply-chain: $(VENV)/.supply ## bandit, and the licences and the list of the run-time dependencies (build/sbom.cdx.json)
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml --severity-level high kafka_remote_client fetchers
	$(BIN)/python -m tests.support.parts_list build/sbom.cdx.json

audit: $(VENV)/.supply ## known vulnerabilities of all pinned versions; asks the vulnerability service of PyPI
	$(BIN)/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement .ci/constraints.txt

pins: $(VENV)/.supply ## writes the hashes of all archives of .ci/constraints.txt, after a change of a version or a requirement
	$(BIN)/python .ci/pins.py $(BIN)/uv

docs: $(VENV)/.test ## writes the generated pages, runs every example, checks links
	$(BIN)/python docs/generate.py
	$(PYTEST) tests/docs $(ARGS)

site: $(VENV)/.test ## builds the documentation site (build/site/html/index.html), without a warning; fetches one script by npm
	$(BIN)/python docs/build_site.py

changelog: ## prints the changelog of the next version (ARGS="--release 2026-01-31" writes docs/changelog.md and removes the fragments)
	@$(PYTHON) docs/changelog.py $(ARGS)

clean: ## removes what was built and measured; keeps .venv and .cache
	rm -rf build dist *.egg-info .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -not -path './.cache/*' -prune -exec rm -rf {} +

# LEDGER=1 appends the run of a campaign to the ledger, of test-all the minutes of its suites; `make docs` then writes its figures into the documents.
test-all faults chaos shim-kills broker-versions state-machine properties group-machines plain-groups mutants fuzz under-load pure-python \
	confluent-versions kernel-coverage scan-predicates export-kills spark-export-kills resident-memory simulate simulate-bugs: export KAFKA_REMOTE_LEDGER_FILE := \
	$(if $(LEDGER),$(CURDIR)/docs/ledger.jsonl,$(KAFKA_REMOTE_LEDGER_FILE))

# What the commands above stand on

install: $(VENV)/.test

artifacts: $(VENV)/.test
	$(BIN)/python -m tests.support.artifacts
	$(BIN)/python -m tests.support.class_archive

store-servers: $(VENV)/.test
	$(BIN)/python -m tests.support.store_servers

spark-parts: $(VENV)/.test
	$(BIN)/python -m tests.support.spark
	$(BIN)/python -m tests.support.spark_environment

$(VENV)/.made: $(HASHES)/build.txt
	@$(if $(PYTHON),,$(error Python 3.11 or later is not on PATH))
	$(PYTHON) -m venv $(VENV)
	$(INSTALL_LIST) $(HASHES)/build.txt
	@touch $@

# The record decoder is compiled where there is a C compiler; without one the installation goes on with its twin in Python.
$(VENV)/.demo: $(VENV)/.made pyproject.toml $(HASHES)/demo.txt $(KERNEL)
	$(INSTALL_LIST) $(HASHES)/demo.txt
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml $(HASHES)/test.txt $(KERNEL)
	$(INSTALL_LIST) $(HASHES)/test.txt
	$(INSTALL) --editable .
	@touch $@ $(VENV)/.demo

# Tools that only `make supply-chain`, `make audit` and `make pins` need.
$(VENV)/.supply: $(VENV)/.test $(HASHES)/supply.txt
	$(INSTALL_LIST) $(HASHES)/supply.txt
	@touch $@
