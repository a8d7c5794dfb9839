# The two commands: `make demo` and `make test`. Both create .venv and install what they need there.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
# Build folders stay in the repository, as test projects do; outside it only uv and cargo keep what
# they download.
export REXTIO_TORCH_CACHE_DIR ?= $(CURDIR)/.cache/rextio-torch
# With VIRTUAL_ENV set, libtorch's build script asks the `python` on PATH for the installed torch.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test lint types mutation sanitize fuzz arm64 bench docs scoreboards format lock clean

demo: $(VENV)/.installed
	python examples/digits/demo.py

test: lint types
	python -m pytest

lint: $(VENV)/.installed
	ruff check
	ruff format --check

types: $(VENV)/.installed
	mypy

# Whether the tests notice deliberate mistakes; FAMILIES="softmax claims" for some of them, and
# FAMILIES=native for those in the code that needs libtorch.
mutation: $(VENV)/.installed
	python -m tools.mutation $(FAMILIES)

# The kernels and the engine as AArch64 code under qemu; Debian 12 on x86_64, docs/platforms.md.
arm64: $(VENV)/.installed
	python -m tools.arm64

# The Rust tests under AddressSanitizer and valgrind; CHECKS=address for one of them.
sanitize: $(VENV)/.installed
	python -m tools.sanitize $(CHECKS)

# The random tests, TIMES as long as in `make test`.
TIMES ?= 20
fuzz: $(VENV)/.installed
	REXTIO_TORCH_FUZZ_TIMES=$(TIMES) PROPTEST_CASES=$$((256 * $(TIMES))) python -m pytest \
		tests/unit/test_decide.py tests/unit/test_any_source.py tests/native/test_boundary_fuzz.py \
		tests/native/test_runtime_crate.py::test_cargo_tests

# All peers, shapes and thread counts; QUICK=--quick for a subset of two minutes.
bench: $(VENV)/.installed
	python -m benchmarks $(QUICK)

docs: $(VENV)/.installed
	python -m rextio_torch.derive.pages docs

# Runs the suites that others wrote and writes docs/external.md.
scoreboards: $(VENV)/.installed
	python -m pytest tests/external --write-scoreboards

format: $(VENV)/.installed
	ruff check --fix
	ruff format
	cargo fmt --manifest-path src/rextio_torch/runtime/rust/Cargo.toml

lock: $(VENV)/.installed
	uv pip compile pyproject.toml --all-extras --generate-hashes --no-annotate \
		--python-version 3.11 --custom-compile-command "make lock" -o requirements.lock

clean:
	rm -rf .cache $(VENV) $(addprefix examples/digits/inference/,.rextio .cargo dist)

$(VENV)/.installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	uv pip install --python $(BIN)/python --require-hashes -r requirements.lock
	uv pip install --python $(BIN)/python --no-deps -e .
	touch $@
