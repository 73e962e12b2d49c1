# Every target makes the environment it needs; `make` alone lists the targets.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
JOBS   ?= 2

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help env demo test bench audit check fmt wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

env: $(READY) ## make the environment in .venv, with `rewrite` in .venv/bin

demo: $(READY) ## rewrite real models for Hexagon, report, compare; run one here
	$(BIN)/python demo/demo.py

test: $(READY) ## run the tests
	$(BIN)/python -m pytest -n $(JOBS)

bench: $(READY) ## time models against onnxruntime and OpenVINO; compile time, memory, fusion
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@status=0; for bench in compare compile_time memory_run fusion; do \
		echo "$$bench:"; $(BIN)/python tests/bench/$$bench.py || status=1; done; exit $$status

audit: $(READY) ## hold the shipped packs to their tests, claims, coverage, mutants and lint
	@status=0; \
	$(BIN)/rewrite lint rules -j $(JOBS) || status=1; \
	$(BIN)/rewrite test rules -j $(JOBS) || status=1; \
	$(BIN)/rewrite verify rules -j $(JOBS) || status=1; \
	$(BIN)/rewrite coverage rules -j $(JOBS) --fail-under 95 || status=1; \
	$(BIN)/rewrite coverage rules -j $(JOBS) --mutate --fail-under 95 || status=1; \
	exit $$status

check: $(READY) ## formatting, lint, types, rule files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/rewrite fmt --check rules

fmt: $(READY) ## format Python and rule files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .
	$(BIN)/rewrite fmt rules

wheel: $(READY) ## build the wheel into dist/
	$(BIN)/python -m hatchling build --target wheel

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# New dependencies are installed when pyproject.toml changes.
$(READY): pyproject.toml tools/environment.py
	$(PYTHON) tools/environment.py $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
