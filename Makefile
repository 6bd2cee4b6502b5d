# Everything starts on a fresh Linux machine with make and Python 3.11 or later; no other set-up.
#   make demo    bench -> patch -> bench -> status -> revert on a real SGLang, on this CPU
#   make test    lint, types, layers, and every test but the long ones (network cut off where root may)
#   make rerun   what failed in `make test` once more, one after the other: what passes is flaky, not broken
#   make lint | compat | e2e | bench | docs | clean
# Downloads are kept in $OEACTL_CACHE, else $XDG_CACHE_HOME/oeactl, else ~/.cache/oeactl.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready-$(shell cat requirements-dev.lock pyproject.toml | cksum | tr -d ' ')
SHARED := -n 3 --no-loadscope-reorder
REMEMBER := -p tests.support.flaky
OFFLINE := $(RUN) tests/support/offline.py
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check
PATIENT := PIP_RETRIES=8# an index that is away is waited for, for a minute

.PHONY: demo test rerun lint fetch compat e2e bench docs clean
.DELETE_ON_ERROR:

test: lint fetch
	$(OFFLINE) $(RUN) -m pytest $(SHARED) $(REMEMBER) --durations 15 -m "not compat and not e2e"

rerun: $(READY)
	$(OFFLINE) $(RUN) -m pytest -n 0 $(REMEMBER) --failed-again -m ""

lint: $(READY)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

fetch: $(READY)
	$(PATIENT) $(RUN) -m tests.support.fetch

compat: $(READY)
	$(PATIENT) $(RUN) -m tests.support.fetch --every-release
	$(OFFLINE) $(RUN) -m tests.support.compat
	$(OFFLINE) $(RUN) -m pytest $(SHARED) -m compat

e2e: fetch
	$(OFFLINE) $(RUN) -m pytest $(SHARED) -m e2e

demo: $(READY)
	$(RUN) demo/engine/install.py
	$(RUN) -m demo.demo

bench: $(READY)
	set -e; for program in benchmarks/*.py; do echo "== $$program"; $(RUN) $$program; done

docs: $(READY)
	$(RUN) docs/make_reference.py
	$(RUN) docs/make_schemas.py

$(READY): requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "oeactl needs Python 3.11 or later; PYTHON=/path/to/python make $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PATIENT) $(INSTALL) --require-hashes -r requirements-dev.lock || \
	  $(INSTALL) --require-hashes -r requirements-dev.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	rm -f $(VENV)/.ready-*
	touch $@

clean:
	rm -rf $(VENV) build dist demo-work .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
