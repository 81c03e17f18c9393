# The whole interface: every target installs what it needs, builds and runs.
#   make demo        compare two real dumps, print the verdict, write the report;
#                    hold two implementations to the goldens of a third
#   make test        build and run every test
#   make install     into PREFIX (default /usr/local), for find_package(assay)
#   make bench       measure against the peers, write build/bench.tsv
#   make check       formatting, lint of changed files, the docs' commands
#   make test-clients
#                    pip install from a source distribution, tested there
#   make test-long   sanitizers over everything, long fuzzing, every recipe
#                    trained beside five seeds of bf16

JOBS ?= $(shell nproc)
ASSAY = build/release/bin/assay

PREFIX ?= /usr/local

.PHONY: all build install demo test test-asan test-clients test-long bench check clean

all: build

# The program alone; the tests are built by the targets that run them.
build:
	@tools/bootstrap.sh build
	@tools/build.sh release $(JOBS) assay

install:
	@tools/bootstrap.sh build
	@tools/build.sh release $(JOBS) installed
	@cmake --install build/release --prefix $(PREFIX)

demo: build
	@tools/bootstrap.sh demo
	@tools/demo.sh

test:
	@tools/bootstrap.sh test
	@tools/build.sh release $(JOBS)
	@tools/run_tests.sh

# The readers and everything below them under ASan and UBSan.
test-asan:
	@tools/bootstrap.sh test
	@tools/build.sh asan $(JOBS)
	@cd build/asan && ctest --output-on-failure -LE 'cli|per_isa'

# The Python package as pip installs it.
test-clients:
	@tools/bootstrap.sh test
	@tools/test_clients.sh

test-long: test test-asan test-clients
	@tools/run_fuzzers.sh 120
	@ASSAY_LONG=1 build/venv/bin/python -m pytest -q -p no:cacheprovider \
	  tests/python/test_conform_faults.py tests/python/test_te_provider.py
	@tools/train_recipes.py -- --layers 2 --hidden 128 --kv-heads 2 --seq 64 --batch 4

bench:
	@tools/bootstrap.sh bench
	@tools/build.sh release $(JOBS) assay _core bench_stats bench_te \
	  bench_overlap
	@tools/run_bench.sh

check:
	@tools/bootstrap.sh check
	@tools/build.sh release $(JOBS)
	@tools/check.sh

clean:
	rm -rf build
