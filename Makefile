# Everything a developer runs. `make` alone lists it; every target does its own set-up in .venv.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
FUZZ := --release --locked --manifest-path rust/fuzz/Cargo.toml
RUST_SOURCES := $(shell find rust/wire rust/py -type f \( -name '*.rs' -o -name 'Cargo.toml' \) 2>/dev/null)
# So that a virtual environment of the caller's, or its path set-up, has no say in ours.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help demo build test lint bench conformance fuzz soak check clean mutants
.DELETE_ON_ERROR:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## Build, then talk to the demo server over stdio and HTTP
	@$(PY) -m ferrule.demo

build: $(VENV)/.built ## Build the Rust core and install the package into .venv, editable

test: $(VENV)/.dev build ## Run every test, Python and Rust
	$(PY) -m pytest -n 2 --dist loadfile
	cargo test --workspace --locked

lint: $(VENV)/.dev build ## Style, types, stubs, import rules
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -m mypy.stubtest --concise ferrule._core
	cargo fmt --all --check
	cargo fmt --check --manifest-path rust/fuzz/Cargo.toml
	cargo fmt --check --manifest-path benches/null_server/Cargo.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(PY) -m pytest -q tests/test_import_rules.py

bench: $(VENV)/.dev build ## Measure against the floors and the peers, and hold the bounds
	$(PY) benches/framing.py
	$(PY) benches/startup.py --check
	$(PY) benches/calls.py --check
	$(PY) benches/leaks.py --check
	$(PY) benches/listeners.py --check
	$(PY) benches/cache.py --check

conformance: $(VENV)/.dev build ## Run the official conformance suite's client scenarios
	$(PY) tests/conformance/run.py

fuzz: ## Fuzz each decoder of the Rust core, after it has found the faults planted for it
	@sh .ci/need cargo
	cargo build $(FUZZ) --features canary
	@for target in events lines scan; do \
		if cargo run $(FUZZ) --features canary -- $$target --seconds 60; then \
			echo "the fault planted for the target '$$target' was not found" >&2; exit 1; \
		fi; \
	done
	cargo run $(FUZZ)

soak: $(VENV)/.dev build ## Play 100,000 cases of the fault server (FERRULE_FAULT_CASES says how many); takes an hour
	FERRULE_FAULT_CASES=$${FERRULE_FAULT_CASES:-100000} $(PY) -m pytest -q tests/test_faults.py

check: test lint ## What must be green before a change is handed in

mutants: $(VENV)/.dev build ## Break the source in small ways; each must turn a test red
	$(PY) tests/mutants/run.py

clean: ## Remove everything the other targets made
	rm -rf $(VENV) target rust/fuzz/target rust/fuzz/artifacts benches/null_server/target
	rm -rf tests/servers/node/node_modules tests/servers/oidc/node_modules tests/conformance/node_modules
	rm -rf .mypy_cache .ruff_cache python/ferrule/_core*.so
	find python tests benches -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up: a stamp inside .venv for each stage ---

$(VENV)/.made:
	@PYTHON="$(PYTHON)" sh .ci/need python cargo
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --upgrade 'pip>=25.1' 'maturin>=1.7,<2'
	@touch $@

$(VENV)/.built: $(VENV)/.made pyproject.toml Cargo.toml Cargo.lock $(RUST_SOURCES)
	@sh .ci/need cargo
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(VENV)/bin/maturin develop --release --quiet
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(PY) -m pip install --quiet --group test --group lint --group bench
	@touch $@
