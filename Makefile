# Each target sets up what it needs. What the machine lacks is named with the command that installs it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
# No other Python is downloaded behind your back: tox uses those that the machine has.
export UV_PYTHON_DOWNLOADS := never
export UV_CONSTRAINT := $(CURDIR)/constraints.txt
export UV_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt
# Six environments that hold the same packages: as hard links to uv's cache they take the disk once.
export UV_LINK_MODE ?= hardlink

# Tests start hundreds of processes: without bytecode each of them compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that really starts (a pyenv shim may be there and not start).
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null \
	&& echo $$p && break; done)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

NATIVE := $(wildcard setup.py fastpath/*.pyx fastpath/*.pxd fastpath/c/*.h)

.venv/.ready: pyproject.toml constraints.txt $(NATIVE)
	@test -n "$(PYTHON)" || { echo "kraftspec needs Python 3.11 to 3.14. Install it: sudo apt-get install python3.11 python3.11-venv (or: brew install python@3.13)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) lacks venv. Install it: sudo apt-get install python3-venv" >&2; exit 1; }
	@echo "Making .venv: packages and compiled modules. This takes a minute or two where pip's caches are warm." >&2
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[conformance,compression,node,proxy,spark]' --group dev
	@touch $@

.PHONY: setup
setup: .venv/.ready ## Make .venv with the locked dependencies

# What `make test` leaves to `make test-all`, but for the smokes; the markers are in pyproject.toml.
QUICK := smoke or not (kafka or spark or peers or browser or wireshark or soak)

# Many tests wait for other processes: three at a time on two cores. A worker keeps the tests of a
# module together, and one that is done takes tests of another.
WORKERS := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2) --dist worksteal

.PHONY: test
test: .venv/.ready ## What to run before each commit: the quick tests, lint, types, docs
	@mkdir -p build/tests
	$(BIN)/pytest -q $(WORKERS) -m '$(QUICK)' --junitxml=build/tests/quick.xml $(ARGS)
	$(MAKE) --no-print-directory --keep-going -j2 lint type docs

# The interpreters beside that of .venv. pyenv shows one of those it has, unless it is told of more.
OTHERS = $(shell $(BIN)/python tests/interpreters.py)

.PHONY: test-all
test-all: test ## Every test there is, every interpreter, packages, sanitizers, leaks (tox)
	@rm -rf build/lib build/bdist.* # setuptools would put modules that are gone into the wheel
	@tests/fastpath/arm_crc.sh # Only root's: a cross compiler and an emulator, where they are missing
	@$(BIN)/python tests/interpreters.py --untested
	# What `make test` has run is not run again.
	$(BIN)/tox run -e full -- $(WORKERS) -m 'not ($(QUICK))'
	@# Two environments must not be built at once, for they share files; their tests do not.
	@# First those that take one core: the interpreters fill both to the end.
	export PYENV_VERSION=$$($(BIN)/python tests/interpreters.py --pyenv) && \
		rest=$$(echo sdist sanitize leaks wheel $(OTHERS) | tr ' ' ,) && \
		$(BIN)/tox run --notest -e $$rest && \
		$(BIN)/tox run-parallel --parallel 2 --parallel-live --skip-pkg-install -e $$rest

.PHONY: coverage
coverage: .venv/.ready ## Every test, the branches counted that they run: twice as long as without
	$(BIN)/tox run -e full -- $(WORKERS) --cov --cov-report=term

.PHONY: demo
demo: .venv/.ready ## Check specs, generate codecs, verify the golden vectors, print what was proven
	$(BIN)/kraftspec demo

.PHONY: native
native: .venv/.ready ## Build the compiled modules again, in place
	$(BIN)/uv pip install --quiet --python $(BIN)/python cython setuptools
	$(BIN)/python setup.py -q build_ext --inplace

.PHONY: generate
generate: .venv/.ready ## Render generated/ from specs/
	$(BIN)/kraftspec generate

.PHONY: vectors
vectors: .venv/.ready ## Re-make the golden vectors with Apache Kafka's own classes
	$(BIN)/kraftspec conform make

.PHONY: artefacts
artefacts: .venv/.ready ## The golden vectors as packages of five languages and a tarball, in build/artefacts
	$(BIN)/python -m kraftspec.conformance.artefacts build/artefacts

# The vectors are our own.
SHIPPED = $(shell $(BIN)/python -c 'import tomllib; \
	extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(*(extras.keys() - {"vectors"}))')

.PHONY: sbom
sbom: .venv/.ready ## What an install with all extras brings, as CycloneDX: build/kraftspec.cdx.json
	@mkdir -p build
	$(BIN)/uv pip compile --quiet pyproject.toml $(SHIPPED:%=--extra %) --universal --python-version 3.11 \
		--no-header --no-annotate --output-file build/runtime.txt
	env -u UV_CONSTRAINT $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py requirements build/runtime.txt \
		--pyproject pyproject.toml --mc-type library --output-reproducible --of JSON --output-file build/kraftspec.cdx.json

.PHONY: release
release: .venv/.ready ## Bring in a release of Kafka: specs, codecs, vectors, results, a page; RELEASE=4.4.0
	$(BIN)/python -m kraftspec.conformance.making.release $(RELEASE) $(ARGS)

.PHONY: release-check
release-check: .venv/.ready ## May the project be published? Not while a finding is embargoed (SECURITY.md)
	$(BIN)/python tests/release_check.py

.PHONY: report
report: .venv/.ready ## Run every adapter, make build/report/index.html and the picture in the docs
	$(BIN)/kraftspec conform report --all --out build/report/index.html --screenshot docs/report.png

.PHONY: interop
interop: .venv/.ready ## Kill, pause and partition nodes of a mixed quorum, send 10,000 malformed frames; ARGS="--ours 2"
	KRAFTSPEC_MALFORMED_FRAMES=10000 $(BIN)/pytest -q tests/reference/node/test_server.py -k malformed_frames
	mkdir -p build
	$(BIN)/python -m kraftspec.interop --report build/interop.json $(ARGS)

.PHONY: bench
bench: .venv/.ready ## Measure beside the peers, write docs/performance.md; ARGS=--quick to look
	$(BIN)/python -m benchmarks.run $(ARGS)

.PHONY: bench-check
bench-check: .venv/.ready ## Has a ratio to a peer fallen since the last committed run?
	$(BIN)/python -m benchmarks.check $(ARGS)

.PHONY: bench-report
bench-report: .venv/.ready ## Write docs/performance.md again from benchmarks/results.json
	$(BIN)/python -m benchmarks.report

.PHONY: bench-pipeline
bench-pipeline: .venv/.ready ## Measure the pipeline, write docs/pipeline-performance.md; ARGS=--quick
	$(BIN)/python -m benchmarks.pipeline $(ARGS)

.PHONY: simulate
simulate: .venv/.ready ## Simulate quorums; ARGS='--seeds A..B --events N'
	$(BIN)/kraftspec simulate $(or $(ARGS),--seeds 0..999)

.PHONY: simulate-compiled
simulate-compiled: .venv/.ready ## Compile the simulator, in minutes; `kraftspec simulate` uses it then; ARGS=--quick
	$(BIN)/python -m kraftspec.simulation.compiled $(ARGS)

.PHONY: simulate-kafka
simulate-kafka: .venv/.ready ## Simulate quorums of Apache Kafka's own nodes; CORE=kafka:4.3.1,kraftspec ARGS='--seeds A..B'
	$(BIN)/kraftspec simulate --core $(or $(CORE),kafka) $(or $(ARGS),--seeds 0..99 --events 2000)

.PHONY: recall
recall: .venv/.ready ## Look for public bugs of Kafka's raft client, write docs/recall.md; ARGS=KAFKA-16926
	nice -n 10 $(BIN)/python -m kraftspec.simulation.recall $(ARGS)

.PHONY: simulate-verify
simulate-verify: .venv/.ready ## Hold `quorum verify` against simulated quorums; ARGS=0..9999
	$(BIN)/python -m kraftspec.simulation.offline $(or $(ARGS),0..999)

.PHONY: recover-matrix
recover-matrix: .venv/.ready ## Recover wrecked quorums of real Kafka, kinds times seeds; goes on; ARGS='KIND --seeds 0..9'
	$(BIN)/python -m kraftspec.interop.wrecks.matrix $(ARGS)

.PHONY: verify-live
verify-live: .venv/.ready ## Verify a quorum under load whose leaders are killed; goes on; ARGS='--runs 1000'
	$(BIN)/python -m kraftspec.interop.verify_live $(ARGS)

.PHONY: model
model: .venv/.ready ## Check the TLA+ model of KRaft with TLC; ARGS='elections --workers 2'
	$(BIN)/python -m kraftspec.model $(ARGS)

.PHONY: explore
explore: .venv/.ready ## Try every event in every state of a few real nodes, beside the model; ARGS='election --bug NAME'
	$(BIN)/python -m kraftspec.simulation.exhaustive $(ARGS)

.PHONY: model-bugs
model-bugs: .venv/.ready ## Let the model alone look for the seeded bugs; goes on where it stopped
	$(BIN)/python -m kraftspec.simulation.catalogue.against_model $(ARGS)

.PHONY: simulate-catalogue
simulate-catalogue: .venv/.ready ## Look for every seeded bug, write docs/simulation.md; ARGS='--jobs N'
	$(BIN)/python -m kraftspec.simulation.catalogue.table $(ARGS)

.PHONY: campaigns
campaigns: .venv/.ready ## Hours of checks that no tier holds; goes on where it stopped; ARGS=--list
	$(BIN)/python tests/campaigns.py $(ARGS)

.PHONY: live
live: .venv/.ready ## Play all live scenarios with our node; ARGS='--jobs N --filter TEXT'
	$(BIN)/kraftspec conform live --target kraftspec --jobs 4 $(ARGS)

.PHONY: live-kafka
live-kafka: .venv/.ready ## Play all live scenarios with Kafka's; KAFKA_RELEASE=4.3.1 for another release
	$(BIN)/kraftspec conform live --target kafka --jobs 2 $(ARGS)

.PHONY: live-catalogue
live-catalogue: .venv/.ready ## Which seeded bugs the live suite catches, docs/live-catalogue.md; ARGS='--jobs N'
	$(BIN)/python -m kraftspec.simulation.catalogue.outside $(ARGS)

.PHONY: clients
clients: .venv/.ready ## Play every exchange with every client that has a driver, docs/clients-results.md; ARGS='CLIENT --again'
	nice -n 10 $(BIN)/python -m kraftspec.conformance.clients.table $(ARGS)

.PHONY: fuzz
fuzz: .venv/.ready ## Throw two million inputs at each target; ARGS='--target T --runs N --jobs N --seed N'
	@$(BIN)/python -c 'import atheris' 2>/dev/null \
		|| $(BIN)/uv pip install --quiet --python $(BIN)/python --only-binary :all: --group fuzz \
		|| echo "There is no atheris for this machine: inputs are changed without its guidance." >&2
	$(BIN)/python -m tests.fuzz.run $(ARGS)

.PHONY: sanitize
sanitize: .venv/.ready ## Run the tests of the compiled modules under ASan and UBSan
	$(BIN)/tox run -e sanitize

.PHONY: leaks
leaks: .venv/.ready ## Call each of those tests again and again, and count what is left behind
	$(BIN)/tox run -e leaks

.PHONY: refcounts
refcounts: ## The same by reference counts, under a debug interpreter (python3.11-dbg)
	tests/refcounts.sh tests/fastpath

.PHONY: lint
lint: .venv/.ready ## Ruff, import contracts, and whether generated files are up to date
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	@mkdir -p build
	@$(BIN)/lint-imports > build/imports.txt 2>&1 || { cat build/imports.txt; exit 1; }
	@for platform in "linux --archs x86_64,aarch64" "macos --archs x86_64,arm64"; do \
		$(BIN)/cibuildwheel --print-build-identifiers --platform $$platform > /dev/null; done
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-actions .github/actions/conform/action.yml
	$(BIN)/kraftspec generate --check
	$(BIN)/python -m kraftspec.codegen.raw_models --check

.PHONY: type
type: .venv/.ready ## mypy --strict over the packages and the tests
	$(BIN)/mypy
	$(BIN)/mypy tests

.PHONY: format
format: .venv/.ready ## Format the hand-written code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: docs
docs: .venv/.ready ## Build the documentation into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

.PHONY: lock
lock: .venv/.ready artefacts ## Re-make constraints.txt, the lock of every dependency
	env -u UV_CONSTRAINT -u UV_BUILD_CONSTRAINT UV_FIND_LINKS=build/artefacts $(BIN)/uv pip compile pyproject.toml --quiet \
		--universal --python-version 3.11 --all-extras --group dev --group build --group fuzz --upgrade \
		--no-emit-package kraftspec-vectors \
		--custom-compile-command 'make lock' --output-file constraints.txt

.PHONY: clean
clean: ## Remove everything that was built, .venv included
	rm -rf .venv .tox build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -rf .import_linter_cache .coverage src/kraftspec.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
