# The same words here and on the build machine. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test spark lint check format docs stubs bench race steady fuzz hostile crash chaos spark-proof clean

PYTHON ?= python3
JOBS ?= 2
FUZZ_SECONDS ?= 120
CHAOS_RUNS ?= 30
CHAOS_SECONDS ?= 20
CHAOS_MODES ?= plain,groups,txn
SPARK_KILLS ?= 50
SPARK_SEED ?= 1
TESTS ?= tests
KAFKA_TESTS = $$(grep -rlE '\bmessages\.[A-Z]' --include='*.py' tests bench | xargs grep -l 'wire\.kafka')
PY := .venv/bin/python

help: ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with all that is needed; quick when nothing changed
	@PYTHON="$(PYTHON)" tools/setup

demo: setup ## a broker, a few thousand orders, a kill -9, and nothing lost
	@PYTHONPATH=examples $(PY) -m demo

test: setup ## every test that takes seconds (JOBS=0: one after another; TESTS=tests/unit: some of them)
	@$(PY) -m pytest -q -m "not slow" -n $(JOBS) --dist loadfile $(TESTS)

spark: setup ## every test on Spark but the proofs, also those that take minutes
	@$(PY) -m pytest -q -k "not many" tests/spark

lint: setup ## lint, format, strict types of the package and of tests that build Kafka messages
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@MYPYPATH=src:tests $(PY) -m mypy --explicit-package-bases $(KAFKA_TESTS)

check: lint ## lint, and the walls between the rooms
	@$(PY) -m pytest -q tests/tidy tests/docs

format: setup ## put the code into its one form
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

docs: setup ## write the pages that derive from the code
	@$(PY) -m penstock.apps.cli.reference docs

stubs: setup ## write the types of Kafka's messages from their field tables
	@$(PY) tools/kafka_stubs.py

bench: setup ## speed and memory, next to what they are compared with
	@$(PY) -m bench

race: setup ## compare with Kafka, NATS, Redis and RabbitMQ, 35 minutes, into docs/benchmarks.md (RESUME=1: continue; ROWS="replay fan-out": these only; QUICK=1: 5 minutes, into build/race)
	@$(PY) -m penstock bench compare $(if $(QUICK),--quick --out build/race,--page docs/benchmarks.md) $(if $(RESUME),--resume) $(ROWS)

steady: setup ## ten minutes of writing and reading: memory must not grow
	@$(PY) -m penstock bench compare steady-memory

fuzz: setup ## broken bytes at every decoder and the whole door (FUZZ_SECONDS=120; uses atheris where it is installed)
	@PYTHONPATH=src:tests $(PY) -m fuzz --seconds $(FUZZ_SECONDS)

hostile: setup ## clients that misuse every door: loop CPU, peak memory and the longest wait of a good client per case
	@$(PY) -m pytest -q -rN tests/hostile

crash: setup ## the long proofs: hundreds of kills, none may lose an acknowledged record
	@$(PY) -m pytest -q -m slow --ignore tests/spark tests

chaos: setup ## clients and brokers killed under load, every history judged (CHAOS_RUNS=30 CHAOS_SECONDS=20)
	@PYTHONPATH=tests $(PY) -m checker run --runs $(CHAOS_RUNS) --seconds $(CHAOS_SECONDS) \
		--mode $(CHAOS_MODES) --crash-seconds 10

spark-proof: setup ## Spark pipelines killed again and again: every record exactly once (SPARK_KILLS=50 SPARK_SEED=1)
	@SPARK_KILLS=$(SPARK_KILLS) SPARK_SEED=$(SPARK_SEED) $(PY) -m pytest -q -s -m slow tests/spark/test_sink_kills.py tests/spark/test_lake_kills.py

clean: ## remove what can be made again
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src -name '*.so' -delete
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
