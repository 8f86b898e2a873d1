# make run        set everything up, run the demo: three views of a shop on Spark, and a worker that is killed
# make models     check the formal models, state by state
# make test       set everything up, run linters, types, import contracts and tests
# make test-long  what takes longer: the large instances of the models, more random examples
# make coverage   which lines the tests of each package run
# make mutants    plant mistakes in modules that changed within a day (BASE=, ARGS=), and report those no test finds
# make torture    kill and stop workers of a running query for some minutes, and search for lost rows
# make bench      the figures of benchmarks/spark, nexmark, graphs, recovery and peers, against peers in the same run
# make bench-short  a few figures against peers, in some seconds, as CI prints them
# make docs       build the site of all pages and the reference into site/dev/ (VERSION=0.1: into site/0.1/)
# make screenshots  take the pictures of docs/howto/dashboard.md and docs/tutorials/completion.md, with Chromium
# make lock       resolve the dependencies again, into the hashed requirements files
.PHONY: help setup tested-with run models test test-long coverage test-without-spark test-resolution mutants torture screenshots bench bench-short docs lint lock clean

help:
	@sed -n 's/^# //p' Makefile

setup:
	@scripts/setup.sh

run: setup
	.venv/bin/pointstamp demo

models: setup
	.venv/bin/pointstamp check models

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

tested-with:
	@scripts/setup.sh --for-tests

test: tested-with lint
	.venv/bin/python scripts/test.py

test-long: test
	.venv/bin/python scripts/test.py --long
	.venv/bin/python scripts/pythons.py

coverage: setup
	.venv/bin/python scripts/test.py --coverage

# Where there is no Java, nor a browser: everything but the tests that start Spark, a broker of Kafka or Chromium.
test-without-spark:
	@scripts/setup.sh --without-java
	.venv/bin/pytest -m "not spark and not kafka and not browser and not long"

# With other versions than the locked ones: RESOLUTION=lowest-direct or highest.
RESOLUTION = highest
test-resolution: tested-with setup
	$(UV) venv --quiet --clear --python .venv/bin/python .venv-$(RESOLUTION)
	$(UV) pip install --quiet --python .venv-$(RESOLUTION)/bin/python --resolution $(RESOLUTION) \
		--editable ".[spark,connect,delta,kafka,sql,postgres,s3,hdfs,azure,gcs,iceberg,otel]" --editable models --group dev
	.venv-$(RESOLUTION)/bin/python scripts/compile_core.py
	.venv-$(RESOLUTION)/bin/python scripts/test.py

docs: setup
	.venv/bin/python scripts/mermaid.py || echo 'docs: diagrams are shown as text'
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --site-dir site/$(or $(VERSION),dev)

screenshots: tested-with
	PYTHONPATH=tests .venv/bin/python scripts/screenshots.py

# BASE is a commit; ARGS are more options of the script, such as "--module src/pointstamp/order/antichain.py --limit 50".
mutants: tested-with
	nice -n 10 .venv/bin/python scripts/mutants.py $(if $(BASE),--base $(BASE)) $(ARGS)

torture: setup
	.venv/bin/python -m tests.torture.run --seconds 180

# What is printed is also kept, with the commit and the machine, in benchmarks/history.jsonl.
RECORD = .venv/bin/python -m benchmarks.history record
bench: setup
	for each in components incremental epochs keyed gang start recovery; do .venv/bin/python -m benchmarks.spark.$$each; done | $(RECORD)
	for each in throughput on_spark; do .venv/bin/python -m benchmarks.nexmark.$$each; done | $(RECORD)
	for each in r-mat uniform grid chain; do .venv/bin/python -m benchmarks.graphs.run --graph $$each --size 65536; done | $(RECORD)
	for each in commits throughput state kill verify compaction store_latency; do .venv/bin/python -m benchmarks.recovery.$$each; done | $(RECORD)
	.venv/bin/python -m benchmarks.peers.table | $(RECORD)
	.venv/bin/python -m benchmarks.views.tpcds
	.venv/bin/python -m benchmarks.short | $(RECORD)

bench-short: setup
	.venv/bin/python -m benchmarks.short

# --universal: one file for every platform and Python; no index address is written.
UV = $(shell command -v uv || echo .uv/bin/uv)
COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" --python-version 3.11
lock: setup
	$(COMPILE) --upgrade --extra spark --extra connect --extra delta --extra kafka --extra sql --extra postgres --extra s3 --extra hdfs --extra azure --extra gcs --extra iceberg --extra otel --group dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) --upgrade requirements/uv.in -o requirements/uv.txt
	$(COMPILE) --upgrade requirements/spark-of-delta.in -o requirements/spark-of-delta.txt
	$(COMPILE) --upgrade requirements/tpcds.in -o requirements/tpcds.txt
	$(COMPILE) --upgrade requirements/compiler.in -o requirements/compiler.txt

clean:
	rm -rf .jars .servers .venv .venv-* .uv site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
