# Each target sets up what it needs, so a fresh clone needs nothing but make.
.DEFAULT_GOAL := help
.PHONY: help setup tools fmt lint types layers docs wire test sim rewrite-scenarios compat chaos bench run check clean
bin := .venv/bin
pytest := $(bin)/python -X dev -m pytest

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-17s %s\n", $$1, $$2}'

setup: .venv/.installed ## make .venv and install Ottla into it
	@$(bin)/python -m compileall -q src # or every start compiles where PYTHONDONTWRITEBYTECODE is set
compiled := $(shell find src/ottla -name "*.py" -not -path "*/cli/*")
.venv/.installed: pyproject.toml constraints.txt setup.py scripts/setup.sh $(compiled)
	@scripts/setup.sh
	@touch $@

tools: ## install what the tests need beside Python: Java, Maven, Go, npm, kcat, strace, iproute2
	@scripts/install-tools.sh

fmt: setup ## format the code
	@$(bin)/ruff check --quiet --fix-only .
	@$(bin)/ruff format .

lint: setup ## look for mistakes and for unformatted code
	@$(bin)/ruff check .
	@$(bin)/ruff format --check --quiet .

types: setup ## check types
	@$(bin)/mypy

layers: setup ## check that imports go downward only
	@$(bin)/lint-imports --no-cache

docs: setup ## write the pages made from the code
	@$(bin)/python scripts/docs.py

wire: setup ## write the message classes made from the message table
	@$(bin)/python scripts/wire_messages.py

test: tools lint types layers ## everything that fits into minutes; what CI runs
	@$(pytest) -m 'not long' -n 2 --dist loadfile --no-loadscope-reorder

sim: setup ## the simulations, with many seeds
	@$(bin)/python -m tests.sim --seeds 1000 -j 2
	@$(bin)/python -m pytest tests/simcontroller -q

rewrite-scenarios: setup ## write the traces of the scenarios anew; review the difference
	@$(pytest) tests/scenarios --rewrite-scenarios

compat: setup tools ## other people's clients and servers, in full, with a report card
	@$(pytest) tests/compat

chaos: setup tools ## real processes under faults and hostile input, in full, and a cluster for MINUTES=60 under SEED
	@$(pytest) tests/chaos tests/hostile
	@$(bin)/python -m tests.chaos --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

bench: setup tools ## measure beside ZooKeeper and Kafka, the codec beside kio, and Spark's source beside its own, in the same run
	@$(bin)/python -m bench.keeper
	@$(bin)/python -m bench.broker
	@$(bin)/python -m bench.groups
	@$(bin)/python -m bench.cluster
	@$(bin)/python -m bench.cleaner --rounds 1
	@$(bin)/python -m bench.wire
	@$(bin)/python -m bench.spark

run: setup ## three brokers, three keepers and a pipeline on Spark, live; ONCE=1 ends by itself
	@$(bin)/python scripts/demo.py $(if $(ONCE),--once)

check: test ## the same as test

clean: ## remove everything that was made
	@rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist src/*.egg-info
