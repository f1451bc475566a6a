# The same targets locally and in CI. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup run build demo test test-cluster spark lint tidy check format docs site stubs proto bench race steady fuzz hostile crash failover chaos sim spark-proof clean

PYTHON ?= python3
JOBS ?= 2
FUZZ_SECONDS ?= 120
NODES ?= 1
STORE ?= coordinator
CHAOS_RUNS ?= $(if $(filter 1,$(NODES)),30,50)
CHAOS_SECONDS ?= $(if $(filter 1,$(NODES)),20,25)
CHAOS_OPS ?= $(if $(filter 1,$(NODES)),1000,2000)
PEER ?= penstock
CHAOS_WORKERS ?= $(if $(filter 1,$(NODES)),1,2)
CHAOS_JOBS ?= $(if $(filter 1,$(NODES)),1,2)
CHAOS_MODES ?= plain,groups,txn,queue
SEEDS ?= 5000
FIRST ?= 0
SPARK_KILLS ?= 50
SPARK_SEED ?= 1
FAILOVER_ROUNDS ?= 5
TESTS ?= tests
TEST_NODES ?= 3
ETCD_TESTS = tests/contract/test_doors.py tests/seeds $(addprefix tests/compat/, test_kafka_answers.py test_versions.py test_groups_calls.py \
	test_at_least_once.py test_transactions.py::test_a_broker_that_dies_in_between test_transactions.py::test_the_clients_together)
CLUSTER_TESTS ?= $(if $(filter etcd,$(STORE)),$(ETCD_TESTS),tests/compat tests/contract tests/seeds)
KAFKA_TESTS = $$(grep -rlE '\bmessages\.[A-Z]' --include='*.py' tests bench | xargs grep -l 'wire\.kafka')
PY := .venv/bin/python
PLUGINS = --disable-plugin-autoload -p xdist -p timeout -p hypothesispytest -p penstock.testing.fixtures

help: ## list targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv with all dependencies; quick when nothing changed
	@PYTHON="$(PYTHON)" tools/setup

run: setup ## run five brokers, their metadata and the gRPC services until Ctrl-C (UP="--brokers 3 --data-dir ./cluster": options of penstock cluster up)
	@$(PY) -m penstock cluster up $(UP)

build: setup ## build the wheel into dist/, and install the packages of the Node.js services if npm is there
	@tools/build

demo: setup ## run the core scenarios end to end, kill -9 included
	@PYTHONPATH=examples $(PY) -m demo

# Three processes for two cores: tests wait for brokers, for timers and for each other's cores.
test: JOBS = 3
test: setup ## run all tests that take seconds (JOBS=0: one process; TESTS=tests/unit: a subset)
	@$(PY) -m pytest -q $(PLUGINS) -m "not slow" -n $(JOBS) --dist loadfile $(TESTS)

test-cluster: setup ## run the suites of clients, doors and seeds against a cluster (TEST_NODES=3; STORE=etcd: a real etcd, CLUSTER_TESTS=tests/seeds: a subset)
	@TEST_NODES=$(TEST_NODES) TEST_STORE=$(STORE) $(PY) -m pytest -q $(PLUGINS) -m "not slow" -n $(JOBS) --dist loadfile $(CLUSTER_TESTS)

spark: setup ## run all Spark tests except the long proofs, including those that take minutes
	@$(PY) -m pytest -q -k "not many" tests/spark

lint: setup ## lint, check formatting, check types of the package and of tests that build Kafka messages
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@MYPYPATH=src:tests $(PY) -m mypy --explicit-package-bases $(KAFKA_TESTS)

tidy: setup ## check the architecture rules: imports, sizes, names
	@$(PY) -m pytest -q tests/tidy

check: lint tidy ## lint, tidy, and the tests of the documentation
	@$(PY) -m pytest -q tests/docs

format: setup ## format the code
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

docs: setup ## regenerate the pages that derive from the code
	@$(PY) -m penstock.apps.cli.reference docs

site: ## build the documentation site into build/site/html, with packages of its own
	@PYTHON="$(PYTHON)" tools/site

stubs: setup ## regenerate the types of Kafka's messages from their field tables
	@$(PY) tools/kafka_stubs.py

proto: setup ## regenerate the code of the gRPC services from proto/
	@tools/proto

bench: setup ## measure speed and memory against reference figures of the same run
	@$(PY) -m bench

race: setup ## compare with Kafka, NATS, Redis and RabbitMQ: 70 minutes, into docs/benchmarks.md (RESUME=1: continue; ROWS="failover catch-up": only these; QUICK=1: 5 minutes without clusters, into build/race)
	@$(PY) -m penstock bench compare $(if $(QUICK),--quick --out build/race,--page docs/benchmarks.md) $(if $(RESUME),--resume) $(ROWS)

steady: setup ## write and read for ten minutes; fails if memory grows
	@$(PY) -m penstock bench compare steady-memory

fuzz: setup ## feed malformed bytes to every decoder and a whole listener (FUZZ_SECONDS=120; uses atheris if installed)
	@PYTHONPATH=src:tests $(PY) -m fuzz --seconds $(FUZZ_SECONDS)

hostile: setup ## misuse every protocol: event-loop CPU, peak memory and longest wait of a well-behaved client per case
	@$(PY) -m pytest -q -rN tests/hostile

crash: setup ## run the long durability proofs: hundreds of kills, no acknowledged record lost
	@$(PY) -m pytest -q -m slow --ignore tests/spark tests

failover: setup ## kill leaders, restart brokers and reassign replicas under six real clients, again and again (FAILOVER_ROUNDS=5)
	@FAILOVER_ROUNDS=$(FAILOVER_ROUNDS) $(PY) -m pytest -q -s -m slow tests/compat/test_failover.py

chaos: setup ## kill clients and brokers under load, verify every history (CHAOS_RUNS=30 CHAOS_SECONDS=20 CHAOS_OPS=1000 CHAOS_JOBS=1; NODES=3: a cluster, with cut networks and broken disks, RF=3 MIN_ISR=2 STORE=etcd; PEER=kafka: Apache Kafka; SEED=123: one run again)
	@mkdir -p build && PYTHONPATH=tests $(PY) -m checker run $(if $(SEED),--seed $(SEED),--runs $(CHAOS_RUNS) --jobs $(CHAOS_JOBS)) --seconds $(CHAOS_SECONDS) \
		--ops $(CHAOS_OPS) --workers $(CHAOS_WORKERS) --nodes $(NODES) --store $(STORE) --mode $(CHAOS_MODES) --crash-seconds 10 \
		--peer $(PEER) $(if $(RF),--rf $(RF)) $(if $(MIN_ISR),--min-isr $(MIN_ISR)) --report build

sim: setup ## simulate a cluster under faults, one run per seed (SEEDS=5000 FIRST=0 JOBS=2; SEED=123: one run, with its story)
	@PYTHONPATH=src:tests $(PY) -m sim.campaign $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS))

spark-proof: setup ## kill Spark pipelines repeatedly: every record exactly once (SPARK_KILLS=50 SPARK_SEED=1; NODES=3: three replicas, leaders killed, partitions move)
	@SPARK_NODES=$(NODES) SPARK_KILLS=$(SPARK_KILLS) SPARK_SEED=$(SPARK_SEED) $(PY) -m pytest -q -s -m slow tests/spark/test_sink_kills.py tests/spark/test_lake_kills.py

clean: ## remove everything that can be regenerated
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src -name '*.so' -delete
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
