# `make test` is all a new machine needs: Python >= 3.11 and pip. What is installed is pinned in requirements/.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup train test test-all test-browser lint format docs peers bench demo clean

help:
	@echo "make train     build .venv, train PPO on CartPole, show how well it plays"
	@echo "make test      build .venv and run the tests"
	@echo "make demo      play the built-in environments and write GIFs"
	@echo "make test-all  the tests and the long runs"
	@echo "make test-browser  the page of an exported policy, in headless Chromium (Debian's)"
	@echo "make lint      format, lint, types, import layers"
	@echo "make docs      the book, into site/"
	@echo "make bench     side-by-side speed against peers"

setup: .venv/.dev

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "rl4jax needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Use: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv .venv

# Stamps: a second call installs nothing.
.venv/.dev: requirements/dev.txt pyproject.toml | .venv/bin/python
	@echo "Installing pinned packages into .venv: a minute or two, once."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/.docs: requirements/docs.txt .venv/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@

# The other libraries of the benchmark, apart: torch never enters .venv.
peers: .venv-peers/.stamp

.venv-peers/.stamp: requirements/peers.txt
	@echo "Installing the peers into .venv-peers: 1.9 GB, a few minutes, once."
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/peers.txt
	@touch $@

train: .venv/.dev
	$(BIN)/rl4jax train ppo CartPole

test: .venv/.dev
	$(BIN)/python -m pytest

test-all: .venv/.dev
	$(BIN)/python -m pytest -m "slow or not slow"

# As root on Debian it installs Chromium by itself; elsewhere set CHROMIUM to its path.
test-browser: .venv/.dev
	@command -v $${CHROMIUM:-chromium} >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(BIN)/python -m pytest tests/deploy/browser/in_chromium.py --numprocesses=0

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.dev .venv-peers/.stamp
	$(BIN)/python benchmarks/run.py

demo: .venv/.dev
	$(BIN)/python examples/random_agent.py

clean:
	rm -rf .venv .venv-peers .jax_cache site bench-results runs
