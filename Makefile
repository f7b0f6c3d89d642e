# make demo    train something real, record it, and serve the page
# make test    the gate of a change: every package, a journey for each page, real processes; one environment
# make test-all  every test: the gate, then the rest, other frameworks' environments included
# make explore  property tests with random examples; failures become examples in .hypothesis/patches
# make check   format, lint, types, dead code: ruff, mypy, vulture, prettier, eslint, svelte-check, vitest
# make recordings  fetch the recorded profiles that some tests need at full length
# make approve  rewrite the approved texts in tests/data/approved; their difference is to be reviewed
# make sizes   print how many lines the source, the page and the tests have
# make mutants  change the source a little and see which changes no test notices
# make screenshots  pictures of every page at four sizes in both themes, into screenshots/
# make pictures  train the demo and take the pictures of the documentation from it, into docs/images
# make faults  play faults (signals, disks, stores, damage) and print what may be lost, and what was
# make answers  record what the product answers to some 3,000 questions, into build/answers; compare with BEFORE=FILE
# make gpu-kit build the wheels that "make gpu" needs on a machine with a GPU and without a network
# make gpu     measure every claim about GPUs there, six minutes at most; small and undecided without a GPU
# make fuzz    feed everything that reads files of others with damaged ones, a minute each
# make bench   print each figure as a ratio to its peer
# make peers   what four readers find of each original writer and of its stand-in, as a table
# make docs    build the documentation site into build/site
# make wheel   build the wheel for this machine, list its components, try it in an empty environment
# make wheels  the same for each Python that is here, of those that wheels are built for
# make sdist   build the source distribution
# make dev     an editable install for work on the project
# make dev-locked  the same from requirements/test.txt, each file of each package checked by its hash
# make lock    write requirements/test.txt anew: the versions of today, their hashes, no addresses

PYTHON ?= python3
VENV   ?= .venv
TFVENV ?= .venv-tensorflow
KVENV  ?= .venv-keras
NVENV  ?= .venv-notebook
# Of a machine with a GPU: the one that has PyTorch.
GPUPYTHON ?= python3
BIN    := $(VENV)/bin
INPUTS := pyproject.toml hatch_build.py README.md $(shell find src web -type f \
            -not -path '*/node_modules/*' -not -path '*/page/*' -not -path '*/__pycache__/*' \
            -not -name '*.so' -not -name '*.c' 2>/dev/null)
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
# Two more than processors: browsers, rendezvous of ranks and slow stores are often waited for.
WORKERS ?= $(shell echo $$(( $(PROCESSORS) + 2 )))
# The tests of the gate seldom wait, and each worker imports all frameworks.
GATE_WORKERS ?= $(PROCESSORS)
SPREAD := --dist loadfile --no-loadscope-reorder
PAGE_INPUTS ?= 50000
MAKEFLAGS += --keep-going
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: answers approve sizes demo test test-all beyond frameworks explore extras environments packages faults fuzz screenshots pictures recordings mutants gpu gpu-kit test-tensorflow test-keras test-keras-2 test-notebook check bench peers docs wheel wheels sdist dev dev-locked lock clean
.DELETE_ON_ERROR:

demo:
	$(MAKE) --no-print-directory -j2 $(VENV)/.demo
	$(BIN)/stepscope demo $(DEMO)

test: $(VENV)/.test
	$(BIN)/python scripts/suite.py -n $(GATE_WORKERS) $(SPREAD) --gate $(PYTEST)

# A part that fails does not keep the others from running: see MAKEFLAGS above.
test-all: test beyond frameworks

beyond: extras
	$(BIN)/python scripts/suite.py -n $(WORKERS) $(SPREAD) --beyond-gate $(PYTEST)

frameworks: extras
	$(MAKE) --no-print-directory -j2 --output-sync=target test-tensorflow test-keras test-keras-2 test-notebook $(ALSO)

# Each part that lacks its environment fails by itself, so the others still run.
extras:
	-$(MAKE) --no-print-directory -j4 --output-sync=target environments packages

explore: $(VENV)/.test
	$(BIN)/python -m pip install --quiet "hypothesis[codemods]"
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -m hypothesis -n $(WORKERS) $(PYTEST)

environments: $(VENV)/.test $(TFVENV)/.test $(KVENV)/.test $(NVENV)/.test tests/azurite/node_modules/.package-lock.json

# Debian's packages are fetched while the environments are made, whose first may have to install venv.
packages: | $(VENV)/bin/python
	scripts/browser.sh
	scripts/mounts.sh

test-tensorflow: $(TFVENV)/.test
	$(TFVENV)/bin/python scripts/suite.py tests/tensorflow

test-keras-2: $(TFVENV)/.test
	$(TFVENV)/bin/python scripts/suite.py tests/keras

test-keras: $(KVENV)/.test
	KERAS_BACKEND=tensorflow $(KVENV)/bin/python scripts/suite.py tests/tensorflow tests/keras

test-notebook: $(NVENV)/.test
	scripts/browser.sh
	$(NVENV)/bin/python scripts/suite.py tests/notebook

screenshots: $(VENV)/.test
	scripts/browser.sh
	$(BIN)/python scripts/screenshots.py --to screenshots --sheets

pictures: $(VENV)/.test
	scripts/browser.sh
	$(BIN)/python scripts/screenshots.py --docs

recordings:
	$(PYTHON) scripts/recordings.py fetch

approve: $(VENV)/.test
	$(BIN)/python -m pytest -q --approve $(PYTEST)

sizes:
	$(PYTHON) scripts/sizes.py

mutants: $(VENV)/.test
	$(BIN)/python -m pip install --quiet coverage
	$(BIN)/python scripts/mutants.py $(MUTANTS)

check: $(VENV)/.test web/node_modules/.package-lock.json
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/dead_code.py
	cd web && npm run --silent lint && npm run --silent check && npm run --silent test

faults: $(VENV)/.test
	PYTHONPATH=tests/lib $(BIN)/python -m support.faults $(FAULTS)

answers: $(VENV)/.test
	$(BIN)/python scripts/answers.py record build/answers/$$(git describe --always --dirty).jsonl.gz $(WORDS)
	$(if $(BEFORE),$(BIN)/python scripts/answers.py compare $(BEFORE) build/answers/$$(git describe --always --dirty).jsonl.gz)

fuzz: $(VENV)/.test web/node_modules/.package-lock.json
	PYTHONPATH=tests/lib $(BIN)/python -m support.fuzz $(FUZZ)
	cd web && FUZZ_INPUTS=$(PAGE_INPUTS) npx vitest run fuzz

bench: $(VENV)/.test
	scripts/browser.sh
	$(BIN)/python benchmarks

peers: $(VENV)/.test $(TFVENV)/.test
	TFVENV=$(CURDIR)/$(TFVENV) $(BIN)/python tests/e2e/test_peers.py

# What travels to a machine with a GPU and without a network.
gpu-kit: | $(VENV)/bin/python
	$(BIN)/python scripts/gpu_kit.py

# There: what was built is installed beside the packages of the machine's own Python.
gpu:
	$(GPUPYTHON) -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target build/gpu-site build/gpu-kit/*.whl
	PYTHONPATH=build/gpu-site $(GPUPYTHON) benchmarks/gpu $(GPU)

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

wheel: | $(VENV)/bin/python
	scripts/wheel.sh $(BIN)/python

wheels: | $(VENV)/bin/python
	scripts/wheel.sh $(BIN)/python $$(scripts/pythons.sh)

sdist: | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build --sdist --outdir build/packages .

dev: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	$(BIN)/python hatch_build.py

dev-locked: | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/test.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	$(BIN)/python hatch_build.py

lock: | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet uv
	UV_PYTHON_DOWNLOADS=never $(BIN)/python -m uv pip compile pyproject.toml --extra test --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --upgrade --output-file requirements/test.txt

clean:
	rm -rf build dist $(VENV) $(TFVENV) $(KVENV) $(NVENV) web/node_modules tests/azurite/node_modules src/stepscope/serve/page src/stepscope/kernels/*.so

# --- environments ------------------------------------------------------------------------------------

$(VENV)/bin/python:
	PYTHON=$(PYTHON) scripts/venv.sh $(VENV)

# The first may have to install venv itself.
$(TFVENV)/bin/python $(KVENV)/bin/python $(NVENV)/bin/python: %/bin/python: | $(VENV)/bin/python
	PYTHON=$(PYTHON) scripts/venv.sh $*

dist/.wheel: $(INPUTS) | $(VENV)/bin/python
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	touch $@

# What the demo needs besides the wheel is installed while the wheel is built.
$(VENV)/.demo-packages: pyproject.toml | $(VENV)/bin/python
	mkdir -p build
	$(BIN)/python scripts/requirements.py demo > build/demo-requirements.txt
	$(BIN)/python -m pip install --quiet --no-compile -r build/demo-requirements.txt
	touch $@

$(VENV)/.demo: dist/.wheel $(VENV)/.demo-packages
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	touch $@

# pip would compile one file after the other, and a hundred megabytes of other projects' tests and models.
# The environments below compile only what their tests import, when they do.
$(VENV)/.test: dist/.wheel
	$(BIN)/python -m pip install --quiet --no-compile "$$(ls dist/*.whl)[test]"
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	ls -d $(VENV)/lib/python*/site-packages/* | xargs -P 2 -n 25 $(BIN)/python -m compileall -qq \
	  -x '/tests?/|/transformers/models/|/ray/(rllib|serve|dashboard)/' || true
	touch $@

$(VENV)/.docs: dist/.wheel
	$(BIN)/python -m pip install --quiet "$$(ls dist/*.whl)[docs]"
	touch $@

# The last TensorFlow with the Estimator needs numpy < 2 and protobuf < 5, so it has an environment of its own.
$(TFVENV)/.test: dist/.wheel | $(TFVENV)/bin/python
	$(TFVENV)/bin/python -m pip install --quiet --no-compile "$$(ls dist/*.whl)[frames]" tensorflow-cpu==2.15.1 pytest pytest-timeout
	$(TFVENV)/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	touch $@

# Keras 3 on TensorFlow. Beside torch, TensorFlow would be imported by TensorBoard and by torch's SummaryWriter.
$(KVENV)/.test: dist/.wheel | $(KVENV)/bin/python
	$(KVENV)/bin/python -m pip install --quiet --no-compile "$$(ls dist/*.whl)[frames]" tensorflow-cpu==2.21.0 keras==3.15.1 tensorboard pytest pytest-timeout
	$(KVENV)/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	touch $@

# JupyterLab and marimo: fifty packages that nothing else needs.
$(NVENV)/.test: dist/.wheel | $(NVENV)/bin/python
	$(NVENV)/bin/python -m pip install --quiet --no-compile "$$(ls dist/*.whl)[notebook]" jupyterlab nbclient marimo playwright pytest pytest-timeout
	$(NVENV)/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	touch $@

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund

# Microsoft's server of Azure Blob Storage; where it cannot be had its tests say so.
tests/azurite/node_modules/.package-lock.json: tests/azurite/package-lock.json
	cd tests/azurite && npm ci --no-audit --no-fund --loglevel=error || echo "no Azurite: the tests of az:// are skipped" >&2
