# Needs Python 3.11 or later; the targets that start Kafka also need a JDK (17 or later) and Maven.
PYTHON ?= python3
EXTRAS ?= dev,json,parquet
JOBS ?= 4
SEEDS ?= 1000
ROUNDS ?= 3
FAULTS ?=
MINUTES ?=
SETUP ?=
SETTINGS ?=
FIRST ?= 0
SCENARIO ?=
TIMES ?= 3
PORT ?= 9092
DIR ?=
SEED ?=
TAG ?=
BASEDPYRIGHT ?= 1.40.2
KAFKA_RELEASE = $(shell sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' tools/kafka/pom.xml)
BROKERS ?= 4.2.0 4.3.1 4.4.0
BROKER_TESTS ?= $(addprefix tests/integration/test_, broker.py commits.py confluent_contract.py consumer_protocol.py fencing.py \
	global_stores.py group_changes.py lifecycle.py membership_contract.py restore.py rolling_update.py standby_tasks.py \
	streams_group.py truncated_logs.py whole_dsl.py wire_leave.py worker_death.py)

SPARKS ?= 4.1.0+pandas-2.2.3+pyarrow-18.1.0+numpy-2.2.6 4.2.1+pandas-2.3.3 4.3.0+pandas-3.1.1
SPARK_TESTS ?= tests/spark $(addprefix tests/integration/test_, spark_tables.py spark_topics.py)

# Packages are compiled when they are first imported, and stay so.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
PIP = $(PY) -m pip install --disable-pip-version-check --no-compile -c constraints.txt
BASE_INSTALLED := $(VENV)/.installed-base
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.installed-docs
EDITORS := $(VENV)-editors
EDITORS_INSTALLED := $(EDITORS)/.installed-$(BASEDPYRIGHT)

# Says what is missing before Python would say it in its own way; a line of a recipe.
NEEDS_PYTHON = command -v "$(PYTHON)" > /dev/null \
	|| { echo "error: there is no $(PYTHON): install Python 3.11 or later, or give its name: PYTHON=python3.12" >&2; exit 1; }; \
	"$(PYTHON)" -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: Python 3.11 or later is needed, and \
	$(PYTHON) is %d.%d: give the name of another one, as in PYTHON=python3.12" % sys.version_info[:2])'

.DELETE_ON_ERROR:
.PHONY: demo demo-spark test quick-kafka test-long test-brokers test-whole test-pythons test-sparks test-busy properties simulate chaos chaos-pauses check compiled house format editors golden kafka pictures bench docs release publishable announce clean

# The tour, a minute; then `.venv/bin/streams demo --http` shows one of its applications in a browser. Neither needs Kafka.
demo: $(BASE_INSTALLED)
	$(PY) -m streams demo
	@echo "The command is $(VENV)/bin/streams."

# History in Parquet files, a backfill in Spark, and a live application that goes on with it, on a Kafka of its own.
demo-spark: $(INSTALLED)
	$(PY) -m tools.spark_demo

# Everything but the long suites, against a real Kafka: the one STREAMS_TEST_KAFKA=host:port names, else its own.
# JOBS test files at a time: most of them wait for a broker or a process. What failed runs once more, alone; its last
# lines name as flaky what passes then. Where examples are drawn anew (test-long, properties) one failure counts.
# The checks run beside the tests, which leave a fifth of two cores idle; what they find is shown when they end.
test:
	@$(MAKE) --no-print-directory -s -j 2 $(INSTALLED) quick-kafka
	@mkdir -p build
	@{ $(MAKE) --no-print-directory check > build/check.log 2>&1; found=$$?; cat build/check.log; exit $$found; } & check=$$!; \
	$(MAKE) --no-print-directory compiled && $(PY) -m pytest -p tools.flaky -n $(JOBS) --dist loadfile; tests=$$?; \
	wait $$check || { echo "error: the checks failed: build/check.log; make check runs them alone" >&2; exit 1; }; \
	exit $$tests

# What each Kafka of the tests starts from, made while the other processor installs Python's packages. Without Java the
# tests that need it say what is missing.
quick-kafka:
	@$(PYTHON) -m tools.kafka.quick_broker || true

# The files of tests, whose asserts pytest rewrites: otherwise each of the JOBS processes does that for all of them.
compiled: $(INSTALLED)
	@collected=$$($(PY) -m pytest --collect-only -q) || { echo "$$collected" | tail -n 60; exit 1; }

test-long: export HYPOTHESIS_PROFILE = drawn
test-long: $(INSTALLED) $(DOCS_INSTALLED)
	$(PY) -m pytest -m slow
	$(MAKE) chaos
	$(MAKE) test-brokers BROKERS="$(filter-out $(KAFKA_RELEASE),$(BROKERS))"
	$(MAKE) test-whole test-pythons test-sparks

# The tests of membership, transactions and the requests that the library sends itself, on brokers of each release of
# BROKERS="4.2.0 4.4.0"; BROKER_TESTS="file ..." are other files. Any target that starts Kafka takes KAFKA_VERSION=4.4.0.
test-brokers: $(INSTALLED)
	@for version in $(BROKERS); do \
		echo "brokers of Apache Kafka $$version"; \
		KAFKA_VERSION=$$version $(PYTHON) -m tools.kafka.quick_broker || exit; \
		KAFKA_VERSION=$$version $(PY) -m pytest -q -n $(JOBS) --dist loadfile -m "slow or not slow" $(BROKER_TESTS) || exit; \
	done

# The tests with long tables of parameters, of which `make test` runs a sample.
test-whole: $(INSTALLED)
	STREAMS_TEST_WHOLE=1 $(PY) -m pytest -q -m "sampled and not slow" -n $(JOBS) --dist loadfile

# What needs no broker, on every supported Python that is on this machine, each in an environment of its own.
test-pythons:
	@$(NEEDS_PYTHON)
	$(PYTHON) -m tools.pythons -n $(JOBS) --dist loadfile

# The tests of the bridge on each Spark of SPARKS="4.2.1 4.3.0+pandas-3.1.1", in an environment of its own, with the versions
# of other packages that are named with it; SPARK_TESTS="file ..." are other files.
test-sparks:
	@$(NEEDS_PYTHON)
	$(PYTHON) -m tools.sparks $(SPARKS) -- -n $(JOBS) --dist loadfile $(SPARK_TESTS)

# Everything but the long suites, TIMES times, while a process for each core does nothing but compute.
test-busy: $(INSTALLED)
	$(PY) -m tools.busy $(TIMES) $(PY) -m pytest -q -n $(JOBS) --dist loadfile

check: $(INSTALLED)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m tools.prose

# How many pieces the house has, how large they are, and what is in two places. `NAMES=--names` prints them.
house:
	$(PYTHON) -m tools.house $(NAMES)

format: $(INSTALLED)
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

# What an editor that checks with pyright says of good and of wrong lambdas, and its hovers;
# docs/decisions/testing-and-repository.md, "Types are tested with mypy and editors on demand".
editors: $(INSTALLED) $(EDITORS_INSTALLED)
	$(PY) -m tools.editors $(EDITORS)/bin

# The tests of random examples, TIMES times with new ones; `make test` draws the same examples each time.
properties: $(INSTALLED)
	for time in $$(seq $(TIMES)); do \
		HYPOTHESIS_PROFILE=drawn $(PY) -m pytest -q -m "hypothesis and not slow" -n $(JOBS) --dist loadfile || exit; done

# Seeds of the simulation, two at a time: SEEDS=n, FIRST=k the first of them, SCENARIO=name one application alone.
simulate: $(INSTALLED)
	$(PY) -m tools.simulate --seeds $(SEEDS) --first $(FIRST) $(if $(SCENARIO),--scenario $(SCENARIO))

# Workers and brokers are killed, frozen, stopped, added and change their version or disk, in one setup after the other
# (group protocols, threads, --workers, standby copies, snapshots, guarantees), and results are computed again and compared.
# FAULTS=n is how many take effect in all; MINUTES=n repeats the setups with the next seeds until the time is over; SEED=n,
# SETUP=name of one setup, DIR=... keeps logs and data there, SETTINGS="-c name=value ..." of the workers.
chaos: $(INSTALLED)
	$(PY) -m tools.chaos.verified $(if $(FAULTS),--faults $(FAULTS)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(SEED),--seed $(SEED)) $(if $(SETUP),--setup $(SETUP)) $(if $(DIR),--dir "$(DIR)") $(SETTINGS)

# Brokers and workers that stand still, are slow or do not answer, on three real brokers: ROUNDS=n of each, SCENARIO=name of one.
chaos-pauses: $(INSTALLED)
	$(PY) -m tools.chaos --rounds $(ROUNDS) $(if $(SCENARIO),--only "$(SCENARIO)")

# Records Kafka Streams for Java again and compares; SEED=n records other inputs and replays them on the golden tests, and
# with COMPOSED=m as many topologies that are drawn at random.
golden: $(INSTALLED)
	$(PY) -m tools.golden.record $(if $(SEED),--seed $(SEED)) $(if $(COMPOSED),--composed $(COMPOSED))

# A single node on the loopback address until Ctrl-C: PORT=... (0 takes a free one), DIR=... keeps the data there,
# KAFKA_VERSION=4.4.0 is another release than that of the tests.
kafka:
	@$(NEEDS_PYTHON)
	exec $(PYTHON) -m tools.kafka.broker --port $(PORT) $(if $(DIR),--dir "$(DIR)")

# The pictures of docs/pictures, from runs of small topologies, and from the recording of the tour's crash, which
# `python -m tools.terminal` makes again.
pictures: $(INSTALLED)
	$(PY) -m tools.timelines

# The documentation as a site in build/site, which a browser opens without a server. A broken link ends it.
docs: $(DOCS_INSTALLED)
	$(PY) -m tools.site

# What a release publishes, in dist: sdist, wheel, software bill of materials, checksums. All but the tests is checked.
release: check docs
	$(PYTHON) -m tools.release

# Whether dist may be published under TAG.
publishable:
	@$(PYTHON) -m tools.release --publishable "$(TAG)"

# A release on GitHub with the files of dist, for a TAG that is there; by the command gh, which is logged in.
announce:
	@mkdir -p build
	@$(PYTHON) -m tools.release --notes > build/notes.md
	gh release create "$(TAG)" dist/* --verify-tag --title "$(TAG)" --notes-file build/notes.md

# BENCHMARKS="name ..." runs only those.
bench: $(INSTALLED)
	$(PY) -m benchmarks $(BENCHMARKS)

clean:
	rm -rf $(VENV) $(VENV)-* build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What an application needs, with its HTTP port: about 85 MB, some seconds. The build backend goes first, and is pinned
# like all else.
$(BASE_INSTALLED): pyproject.toml constraints.txt
	@$(NEEDS_PYTHON)
	@echo "a virtual environment in $(VENV), with streams, its HTTP port and what both need: about 85 MB"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) hatchling
	@$(PIP) --no-build-isolation -e '.[http]'
	@echo "$(VENV) is ready: . $(VENV)/bin/activate, or begin commands with $(VENV)/bin/"
	@touch $@

# PySpark's build backend goes first and is then used as it is: it is pinned like all else. PySpark comes as source, and
# its wheel of 450 MB of jars is unpacked at once: to compress it takes twice as long as all else of it.
$(INSTALLED): $(BASE_INSTALLED)
	@echo "what checks and tests need: about 1 GB more, half of it PySpark; a slow network takes minutes"
	@$(PIP) 'setuptools>=70.1'
	@printf '[bdist_wheel]\ncompression = stored\n' > $(VENV)/stored.cfg
	@DIST_EXTRA_CONFIG="$$PWD/$(VENV)/stored.cfg" $(PIP) --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	@echo "what builds the documentation: about 80 MB"
	@$(PIP) --no-build-isolation -e '.[docs]'
	@touch $@

# An environment of its own, which holds nothing but the checker and the Node that it brings.
$(EDITORS_INSTALLED):
	@$(NEEDS_PYTHON)
	@echo "a virtual environment in $(EDITORS) with basedpyright, which brings Node: about 310 MB"
	@$(PYTHON) -m venv $(EDITORS)
	@$(EDITORS)/bin/python -m pip install --disable-pip-version-check basedpyright==$(BASEDPYRIGHT)
	@touch $@
