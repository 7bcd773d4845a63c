# Works with GNU make 3.81 (macOS) and later. Every target makes sure of .venv first; `make help` lists them.

PYTHON ?= python3
# Test processes at a time.
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMP := $(VENV)/.setup-done

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## make .venv with all that tests and benchmarks need (quick when nothing changed)

# An existing .venv is kept when its Python still runs and is new enough; otherwise it is made anew.
$(STAMP): pyproject.toml
	@if $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then :; else \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || { \
	    echo "interlock: Python 3.11 or newer is needed; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 || true)" >&2; \
	    echo "interlock: name one that is, for example: make setup PYTHON=python3.12" >&2; \
	    exit 1; }; \
	  echo "making $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv --clear $(VENV) || { \
	    echo "interlock: 'python -m venv' failed; on Debian and Ubuntu install the package python3-venv" >&2; \
	    exit 1; }; \
	fi
	@echo "installing what pyproject.toml names into $(VENV)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.PHONY: demo
demo: $(STAMP) ## half a minute: a killed agent, a hand refund, without a gate and with it
	@$(PY) -m benchmarks demo

.PHONY: test
test: $(STAMP) ## run every test
	$(PY) -m pytest -n $(WORKERS) $(ARGS)

.PHONY: check
check: $(STAMP) ## format, lint, types, and every test
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pyright --pythonpath $(PY)
	$(PY) -m pytest -n $(WORKERS) $(ARGS)

# Stand-ins for Stripe that others wrote, as separate processes: a second opinion on the contract, never a dependency.
DOUBLES := .doubles

.PHONY: doubles
doubles: $(STAMP) ## install two independent Stripe doubles into .doubles (needs npm)
	@npm install --silent --no-audit --no-fund --no-save --prefix $(DOUBLES) stripe-stateful-mock@0.0.16
	@$(PY) -m venv $(DOUBLES)/python
	@$(DOUBLES)/python/bin/python -m pip install --quiet --disable-pip-version-check localstripe==1.15.10

# Restate's own server (BSL 1.1): a program of 220 MB that npm brings. Tests that need it are skipped where it is absent.
.PHONY: restate
restate: $(STAMP) ## install Restate's server into .restate (needs npm)
	@npm install --silent --no-audit --no-fund --no-save --prefix .restate @restatedev/restate-server@1.7

.PHONY: contract
contract: $(STAMP) ## what is relied on of Stripe: local, the doubles, and live with STRIPE_API_KEY=sk_test_...
	STRIPE_DOUBLES=required $(PY) -m pytest tests/contract/stripe $(ARGS)

.PHONY: floors
floors: $(STAMP) ## the wrappers' tests with the oldest releases they declare (installs into .floors)
	$(PY) tests/integrations/floors.py $(ARGS)

.PHONY: crash
crash: $(STAMP) ## the crash rows of the refund suite, with real worker processes and SIGKILL
	$(PY) -m benchmarks refund-agent --crash kill $(ARGS)

.PHONY: bench
bench: $(STAMP) ## the three benchmarks; rewrites results/
	$(PY) -m benchmarks refund-agent $(ARGS)
	$(PY) -m benchmarks recovery $(ARGS)
	$(PY) -m benchmarks performance $(ARGS)
