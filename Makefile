# Everything from a bare machine with Python >= 3.11, a C++ compiler and make.
#
#   make demo    build, install, train and judge a kernel machine, draw a picture
#   make test    build, install, run the test suite
#   make test-roundings   the tests that rounding could break, with other roundings:
#                our instruction sets, OpenBLAS cores, threads, numpy's features
#   make bench   build, install, run all benchmarks against their peers; the tables are
#                shown and written to out/bench
#   make lint    formatting, linting, types, the generated pages of public names

VENV ?= .venv
python = $(VENV)/bin/python
sources := pyproject.toml CMakeLists.txt README.md tools/setup.sh \
           $(shell find src -type f -not -name '*.pyc' -not -name '*.so')

.PHONY: demo test test-roundings bench lint clean

demo: $(VENV)/.demo
	$(python) examples/demo.py out/demo.png

test: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(python) -m pytest -n auto

test-roundings: $(VENV)/.test
	$(python) tools/roundings.py -- -n auto

bench: $(VENV)/.test
	$(python) benchmarks/run.py out/bench

lint: $(VENV)/.dev
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	$(python) tools/public_names.py --check

$(VENV)/.demo: $(sources)
	sh tools/setup.sh $(VENV) plot,progress
	@touch $@

$(VENV)/.test: $(sources)
	sh tools/setup.sh $(VENV) test
	@touch $@ $(VENV)/.demo

$(VENV)/.dev: $(sources)
	sh tools/setup.sh $(VENV) dev
	@touch $@ $(VENV)/.test $(VENV)/.demo

clean:
	rm -rf $(VENV) build out
