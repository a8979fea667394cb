# One command per need. CI calls the same targets as a person does, so that they cannot disagree.
# Everything lives in .venv in this checkout; no target needs an activated environment.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ROOMS := protocol runtime broker controller client cli console bench pipeline testing
SOURCES := $(ROOMS) tests tools

# TEST=tests/broker/log picks tests; JOBS=0 runs them in one process (a debugger wants that); N=50 is
# how often `make repro` runs them.
TEST ?= tests
JOBS ?= auto
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist loadfile
N ?= 20

FAST = -m "not integration and not zookeeper and not slow"

# `make quick ROOM=log`: the rooms, and where the tests of one are.
QUICK_ROOMS := protocol runtime log replication coordinator transactions server config observability controller client \
	client/admin client/consumer client/core client/producer cli cli/commands console testing
# A room within a room is run by its own name. Demos, local clusters and browsers want more than a unit test.
QUICK_LEFT_OUT = $(filter $(ROOM)/%,$(QUICK_ROOMS)) cli/demo cli/local console/browser
QUICK_TESTS = $(addprefix --ignore=tests/,$(QUICK_LEFT_OUT)) $(firstword $(wildcard tests/broker/$(ROOM) tests/$(ROOM)))

# Who lets Python write no bytecode would compile every module again in every worker, every broker
# and every command that a test starts: a broker takes twice the CPU time to start.
unexport PYTHONDONTWRITEBYTECODE

# The Pythons that the classifiers in pyproject.toml name; a path does as well.
PYTHONS ?= python3.11 python3.12 python3.13

# `make bench-compare`: the other commit, and how often each is measured.
REF ?= main~1
TURNS ?= 5

# The simulator: SEED=17 for one run, SEEDS=100 FROM=1 for many.
SEED ?= 1
SEEDS ?= 100
FROM ?= 1
SECONDS_SIMULATED ?= 60
SIMULATION = cd tests && ../$(BIN)/python -m simulation

# Chaos with real processes: records of a round, how many rounds, seconds of an undisturbed one;
# CHAOS_SEED=17 draws the same victims again.
MESSAGES ?= 100000
ROUNDS ?= 4
ROUND_SECONDS ?= 60

# `make fuzz-authenticate`: how many frames.
FRAMES ?= 10000000

.PHONY: help setup demo demo-pipeline test nightly unit quick integration check fmt lint types js layers house house-report docs \
	bench bench-compare bench-peers fuzz fuzz-authenticate coverage repro clean sim sim-campaign sim-shrink sim-replay ablations scenarios golden \
	console-check screenshots chaos chaos-moves chaos-spark security-check kafka-suites bench-loop bench-scale bench-spark lanes

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

setup: ## .venv with all that development needs; quiet, and nothing when nothing changed
	@$(PYTHON) tools/setup_venv.py $(VENV)

demo: setup ## a cluster, real data, a leader killed half-way, a verdict; about a minute
	@$(BIN)/oncelog demo

demo-pipeline: setup ## flights through Spark, driver and broker killed, totals judged; some minutes
	@$(BIN)/oncelog pipeline demo

test: setup ## every test: units, ports, integration with real processes and ZooKeeper
	@$(PYTEST) --durations=15 $(TEST)

nightly: setup ## every test, also those that take minutes: all crash points, more seeds and hash seeds, declarative pipelines, spark-submit; all ablations
	@$(PYTEST) --nightly $(TEST)
	@$(MAKE) sim-campaign SEEDS=30 FROM=1 KEPT=1 SECONDS_SIMULATED=20
	@$(MAKE) ablations

unit: setup ## the fast tests: no real ZooKeeper, no broker processes
	@$(PYTEST) $(TEST) $(FAST)

quick: ## ROOM=log: the fast tests of one room, with fewer examples; needs neither Spark nor Java
	@$(if $(filter $(QUICK_ROOMS),$(ROOM)),,echo "make quick ROOM=log; rooms: $(QUICK_ROOMS)" >&2; exit 1)
	@$(PYTHON) tools/setup_venv.py $(VENV) unit
	@HYPOTHESIS_PROFILE=quick $(PYTEST) -q $(QUICK_TESTS) $(FAST)

lanes: ## the fast tests with every Python that is named and found; PYTHONS="python3.12 /opt/3.13/bin/python3"
	@for python in $(PYTHONS); do \
		version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || \
			{ echo "$$python: not found, left out"; continue; }; \
		echo "Python $$version"; \
		$(MAKE) unit PYTHON=$$python VENV=.venv-$$version || exit 1; \
	done

integration: setup ## only the tests with real processes
	@$(PYTEST) tests/integration

chaos: setup ## MESSAGES=100000 ROUNDS=4: copiers and brokers are killed, copies compared; one JSON line
	@cd tests && ../$(BIN)/python -m integration.chaos --messages $(MESSAGES) --rounds $(ROUNDS) \
		--seconds $(ROUND_SECONDS) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

chaos-moves: setup ## ROUNDS=3: 3 -> 5 -> 3 brokers under load, partitions move, brokers are killed; one JSON line
	@cd tests && ../$(BIN)/python -m integration.chaos_moves --rounds $(ROUNDS) \
		$(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

chaos-spark: setup ## MESSAGES=20000 ROUNDS=4: Spark drivers, tasks, executors, brokers die; one JSON line
	@cd tests && ../$(BIN)/python -m pipeline.chaos --rounds $(ROUNDS) \
		--messages $(if $(filter command line environment,$(origin MESSAGES)),$(MESSAGES),20000) \
		$(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

security-check: setup ## the matrix of rights, hostile input, CVEs, safeguards switched off; ends with one JSON line
	@cd tests && PYTHONPATH=. ../$(BIN)/python -m integration.hostile.check --jobs $(JOBS)

kafka-suites: setup ## SUITES="franz-go kcat" KILLS=1: tests of others judge the Kafka listener of three brokers; one JSON line
	@cd tests && PYTHONPATH=. ../$(BIN)/python -m kafka_suites.check $(if $(KILLS),--kills) $(SUITES)

console-check: setup ## the console in a browser: tests, pages for everybody, first paints; one JSON line
	@cd tests && PYTHONPATH=. ../$(BIN)/python -m console.check

screenshots: setup ## ONLY=topics: the pictures of docs/console.md are taken again, by Chromium
	@cd tests && PYTHONPATH=. ../$(BIN)/python -m console.pictures ../docs/pictures $(if $(ONLY),--only $(ONLY))

sim: setup ## SEED=17 LOG=1: one seed replays a cluster; FAULTS=, SKIP=, TRACE=, HISTORY=
	@$(SIMULATION) run $(SEED) --seconds $(SECONDS_SIMULATED) --faults "$(FAULTS)" --skip "$(SKIP)" \
		--knobs "$(KNOBS)" $(if $(LOG),--log) $(if $(TRACE),--trace $(abspath $(TRACE))) \
		$(if $(HISTORY),--history $(abspath $(HISTORY)))

sim-campaign: setup ## SEEDS=100 FROM=1: many seeds on all cores; ends with one JSON line
	@$(SIMULATION) campaign --seeds $(SEEDS) --from $(FROM) --seconds $(SECONDS_SIMULATED) \
		--knobs "$(KNOBS)" $(if $(KEPT),--kept)

sim-shrink: setup ## SEED=17: the fewest faults with which a failing seed still fails
	@$(SIMULATION) shrink $(SEED) --seconds $(SECONDS_SIMULATED) --knobs "$(KNOBS)"

sim-replay: setup ## SEEDS=100: the same trace hash three times, under three hash seeds
	@$(SIMULATION) replay --seeds $(SEEDS)

ablations: setup ## every safeguard switched off, each to be caught; ends with one JSON line
	@$(SIMULATION) ablations

scenarios: setup ## the transcripts; REWRITE=1 writes what came out, OTHER_SEEDS=20 plays them for 20 more seeds
	@REWRITE=$(REWRITE) OTHER_SEEDS=$(OTHER_SEEDS) $(BIN)/python -m pytest -q tests/scenarios
	@$(if $(REWRITE),git --no-pager diff tests/scenarios)

golden: setup ## what every command prints; REWRITE=1 writes what came out into the files, and shows it
	@REWRITE=$(REWRITE) $(BIN)/python -m pytest -q tests/cli/test_golden.py
	@$(if $(REWRITE),git --no-pager diff --stat tests/cli/golden cli/oncelog_cli/output_schemas.json)

check: setup lint types js layers house ## format, lint, strict types, scripts' types, import law, house rules

lint: setup
	@$(BIN)/ruff format --quiet --check $(SOURCES) || \
		{ echo "run make fmt"; exit 1; }
	@$(BIN)/ruff check --quiet $(SOURCES)

types: setup
	@$(BIN)/python tools/check_types.py

js: setup ## the types of the console's scripts; says so where node or TypeScript cannot be had
	@$(BIN)/python tools/check_js.py

layers: setup ## the import law
	@$(BIN)/lint-imports --no-cache > $(VENV)/layers.txt || { cat $(VENV)/layers.txt; exit 1; }

house-report: setup ## who reaches into whose state, circles of imports, citations without a rule, bad docstrings; ends with one JSON line
	@$(BIN)/python tools/house_report.py --list

house: setup ## shape, mirrored tests, rules that are cited, file map, traps
	@$(BIN)/python -m pytest -q tests/house

fmt: setup ## format, and repair what can be repaired
	@$(BIN)/ruff check --quiet --fix-only $(SOURCES)
	@$(BIN)/ruff format --quiet $(SOURCES)

docs: setup ## rewrite the generated parts of the documents, and the classes of Kafka's messages
	@$(BIN)/python tools/kafka_messages.py
	@$(BIN)/python tools/file_map.py
	@$(BIN)/python tools/rules_docs.py
	@$(BIN)/python tools/wire_docs.py
	@$(BIN)/python tools/cli_docs.py
	@$(BIN)/python tools/log_docs.py
	@$(BIN)/python tools/config_docs.py
	@$(BIN)/python tools/security_docs.py
	@$(BIN)/python tools/metrics_docs.py
	@$(BIN)/python tools/dashboard.py

bench: setup ## our figures, with the raw baseline
	@$(BIN)/oncelog bench

bench-loop: setup ## the longest turn of a broker's loop for each feared operation; one JSON line
	@$(BIN)/oncelog bench --only loop

bench-scale: setup ## a controller of 100 brokers with 100,000 partitions: turns, CPU, bytes, memory; one JSON line
	@$(BIN)/oncelog bench --only scale

bench-spark: setup ## what PySpark pipelines reach, beside PySpark without Oncelog; one JSON line
	@$(BIN)/python -m oncelog_bench.spark

bench-peers: setup ## the same work by Apache Kafka and its Python clients
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'
	@$(BIN)/python -m oncelog_bench.peers

bench-compare: setup ## REF=main~1: our figures and those of another commit in turns; QUICK=1, ONLY="failover idle"
	@$(BIN)/python tools/bench_compare.py $(REF) --turns $(TURNS) \
		$(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

fuzz: setup ## hostile bytes against every decoder, for longer than in the tests
	@HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest tests/protocol tests/fuzz -k "fuzz or hostile"

fuzz-authenticate: setup ## FRAMES=10000000: changed frames of AUTHENTICATE; nobody gets in by them; ends with one JSON line
	@cd tests && PYTHONPATH=. ../$(BIN)/python -m fuzz.authenticate --frames $(FRAMES)

coverage: setup ## what the tests of each room leave out
	@$(BIN)/coverage run -m pytest -q -m "not integration" $(TEST)
	@$(BIN)/coverage report

repro: setup ## TEST=path::name N=50: one test many times, to catch a flaky one
	@for run in $$(seq $(N)); do $(BIN)/python -m pytest -q -x $(TEST) || exit 1; done

clean: ## all that can be made again
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .grimp_cache .coverage .coverage.* htmlcov
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
