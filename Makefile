.DEFAULT_GOAL := help
PYTHON ?= python

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

lint: ## Check style, types and import layers
	ruff check .
	ruff format --check .
	mypy
	lint-imports

format: ## Rewrite sources in the project's format
	ruff check --fix .
	ruff format .

test: ## Run the default tests, two at a time
	$(PYTHON) -m pytest -n 2 -q

test-all: ## Run every test, long differential runs included
	$(PYTHON) -m pytest -n 2 -q -m "not browser and not emulator and not shells and not viewers"

test-browser: ## Look at the pages in a headless Chromium of the system
	$(PYTHON) -m pytest -q -m browser tests/npu/rendering/pages

test-emulator: ## Run the kernels for aarch64 under QEMU, linked by aarch64-linux-gnu-gcc
	# Arrays far from small numbers: an emulated process gets other addresses, and no number may look like one.
	MALLOC_MMAP_THRESHOLD_=4096 $(PYTHON) -m pytest -q -m emulator tests/sim/functional/test_emulated.py

test-shells: ## Complete commands in zsh and fish
	$(PYTHON) -m pytest -q -m shells tests/npu/cli

test-viewers: ## Read the exported graph with the classes of Model Explorer
	$(PYTHON) -m pip install --quiet --no-deps --upgrade --target build/viewers ai-edge-model-explorer==0.1.34 dacite==1.9.2
	$(PYTHON) -m pytest -q -m viewers tests/npu/toolchain/test_viewers.py

fuzz: ## Break inputs of every kind for MINUTES (default 5); seeds and failures are printed
	nice -n 19 $(PYTHON) -m tests.fuzz.campaign --minutes $(or $(MINUTES),5)

mutants: ## Break the source on purpose, SAMPLE times a package (default 50), and count what the tests notice
	nice -n 19 $(PYTHON) -m tests.support.mutants --sample $(or $(SAMPLE),50)

golden: ## Rewrite the golden files of the tests, or only those of TESTS
	$(PYTHON) -m pytest -q --update-golden $(or $(TESTS),tests)

docs: ## Rewrite the generated pages that need no measurements
	$(PYTHON) -m npu supported-ops --profile v0.1 -o docs/supported-ops-v0.1.md
	$(PYTHON) -m npu supported-ops --profile u55-u65 -o docs/supported-ops-u55-u65.md
	$(PYTHON) -m npu supported-ops --profile xnnpack -o docs/supported-ops-xnnpack.md
	$(PYTHON) -m npu isa -o docs/command-stream-reference.md
	$(PYTHON) -m tests.support.hardware_fields
	$(PYTHON) -m tests.support.boards_page
	$(PYTHON) -m tests.support.operator_types_page
	$(PYTHON) -m tests.support.vela_features
	$(PYTHON) -m tests.support.vela_agreement
	$(PYTHON) -m tests.support.coverage_table
	$(PYTHON) -m tests.fuzz.page

site: ## Build the documentation site (extra docs) into build/site
	NO_MKDOCS_2_WARNING=1 $(PYTHON) docs/site.py

benchmark: ## Measure speed beside LiteRT and Vela
	$(PYTHON) -m benchmarks.processes
	$(PYTHON) -m benchmarks.processes --compile-all --write docs/speed.md
	$(PYTHON) benchmarks/check_3000.py
	$(PYTHON) -m benchmarks.compiler_quality --write docs/compiler-quality.md
	$(PYTHON) -m benchmarks.compiler_quality --optimise size --write docs/compiler-quality-size.md
	$(PYTHON) -m benchmarks.operator_quality --first 800000 --count 25 --write docs/operator-quality.md
	$(PYTHON) -m benchmarks.operator_quality --first 800000 --count 25 --optimise size --write docs/operator-quality-size.md
	$(PYTHON) -m benchmarks.arena_limits --write docs/arena-limits.md
	$(PYTHON) -m benchmarks.price_of_memory --write docs/price-of-memory.md
	$(PYTHON) benchmarks/cpu_delegate.py

.PHONY: help lint format test test-all test-browser test-emulator test-shells test-viewers fuzz mutants golden docs site benchmark
