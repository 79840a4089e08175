# install      into .venv, without the demo
# demo         install, then train a Macaron Net on a generated corpus and score it
# test         install if needed, then run a selection of the tests, some minutes
# With PYTHON=python3.11 VENV=.venv-3.11, another Python in an environment of its own.
.DEFAULT_GOAL := help
.PHONY: help install demo test test-all lint docs links tables

# The first that starts, which a shim of pyenv may not. There is a wheel of fairseq for 3.12 on x86-64.
PYTHON ?= $(shell for python in python3.12 python3.11 python3.13; do $$python -c '' 2>&- && echo $$python && exit; done; echo python3)
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

help:
	@sed -n 's/^# \(.*   \)/\1/p' Makefile # of its comments, those in columns

# An environment that is there keeps its Python: venv with another would leave pip of one and python of the other.
# Where fairseq is built, it is against the installed torch; an isolated build would download a second one.
$(VENV)/installed: setup.py constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 14) else "Python 3.11, 3.12 or 3.13 is needed (PYTHON=...)")'
	$(BIN)/python -m pip -V >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade pip
	$(BIN)/pip install -c constraints.txt torch numpy cython wheel setuptools
	@$(BIN)/python -c 'import platform, sys; (sys.version_info[:2], platform.machine()) == ((3, 12), "x86_64") or print("building fairseq takes about three minutes")'
	$(BIN)/pip install -c constraints.txt --no-build-isolation fairseq-fixed
	$(BIN)/pip install -c constraints.txt --no-build-isolation -e '.[test]'
	touch $@

install: $(VENV)/installed
ifeq ($(origin PYTHON),command line)
	@[ "$$($(PYTHON) -V)" = "$$($(BIN)/python -V)" ] || { echo "$(VENV) has $$($(BIN)/python -V): another goes beside it, VENV=.venv-..."; exit 1; }
endif

demo: install
	$(BIN)/ode-transformer quickstart

test: install
	$(PYTEST) -m 'not full and not slow'

# test-all     every variant, every script in a separate process, and training to a score (half an hour)
test-all: install
	$(PYTEST)

# lint         ruff and shellcheck, as in the tests
lint: install
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/shellcheck -x scripts/*.sh scripts/*/*.sh data-prep/*.sh ode_transformer/experiments/cli/completion.bash

$(VENV)/docs: $(VENV)/installed
	$(BIN)/pip install -c constraints.txt --no-build-isolation -e '.[docs]'
	touch $@

# docs         execute the notebook and build the documentation in build/docs; every warning is an error
docs: $(VENV)/docs
	$(BIN)/python -m pytest -q tests/experiments/test_own_text.py -k notebook
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo build/docs/index.html

# links        check the external links of the documentation (needs a network)
links: $(VENV)/docs
	$(BIN)/python -m sphinx -q -b linkcheck docs build/links

# tables       write the tables of results in README.md and docs/ again, from the records
tables: install
	$(BIN)/python docs/generate.py
