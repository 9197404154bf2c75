# Everything from a bare machine with Python >= 3.11, a C++ compiler and make.
#
#   make demo    build, install, train a kernel machine on digits; its report is
#                out/digits.html
#   make lab     build, install, open the laboratory: a page to see and step through
#   make test    build, install, run the test suite
#   make test-examples  every example of the gallery, and what its figures show
#   make test-cluster   fits on clusters whose processes are killed and paused
#   make test-browser   the page of the laboratory in Chromium: every tab, accessibility,
#                latency; pictures of it go to build/laboratory
#   make test-requests   10,000 bad requests to the laboratory, made from its contract,
#                and 64 clients for a minute
#   make test-roundings   the tests that rounding could break, with other roundings:
#                our instruction sets, OpenBLAS cores, threads, numpy's features
#   make sanitize   the core under ASan and UBSan, its threads under TSan
#   make fuzz    damaged files for the parsers under ASan and UBSan, for a minute;
#                FUZZ="--runs 10000000 --jobs 2" for so many, by two processes
#   make bench   build, install, run all benchmarks against their peers; the tables are
#                shown and written to out/bench
#   make docs    the site, in docs/_build/html; make docs-serve shows it, and
#                make docs-quick builds it without running the gallery's examples
#   make lint    formatting of Python and C++, linting, spelling, types, generated stubs
#                in sync

VENV ?= .venv
python = $(VENV)/bin/python
sources := pyproject.toml CMakeLists.txt README.md tools/setup.sh \
           $(shell find src -type f -not -name '*.pyc' -not -name '*.so')

.PHONY: demo lab test test-browser test-cluster test-examples test-requests \
        test-roundings sanitize fuzz bench docs docs-quick docs-serve lint clean

demo: $(VENV)/.demo
	@mkdir -p out
	$(python) -m mercer train digits --kernel "RBF(0.001)" --C 10 --cv 5 \
		-o out/digits.mercer --report out/digits.html

lab: $(VENV)/.lab
	$(python) -m mercer lab

test: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(python) -m pytest -n auto

test-examples: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(python) -m pytest -n auto -m gallery tests/test_examples.py

test-cluster: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(python) -m pytest -m cluster tests/test_distributed.py tests/test_faults.py

test-browser: $(VENV)/.test
	sh tools/browser.sh $(VENV) build/browser
	MERCER_BROWSER=1 MERCER_AXE=build/browser/axe.min.js OPENBLAS_NUM_THREADS=1 \
		$(python) -m pytest -s tests/laboratory/test_browser.py

test-requests: $(VENV)/.test
	MERCER_REQUESTS=10000 MERCER_LOAD=60 $(python) -m pytest -s \
		tests/laboratory/test_requests.py tests/laboratory/test_launch.py

test-roundings: $(VENV)/.test
	$(python) tools/roundings.py -- -n auto

sanitize: $(VENV)/.test
	PATH="$(abspath $(VENV))/bin:$$PATH" $(python) tools/sanitize.py

fuzz: $(VENV)/.test
	PATH="$(abspath $(VENV))/bin:$$PATH" $(python) tools/fuzz.py $(FUZZ)

bench: $(VENV)/.test
	$(python) benchmarks/run.py out/bench

docs: $(VENV)/.docs
	$(python) -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "The site is in docs/_build/html/index.html"

docs-quick: $(VENV)/.docs
	MERCER_DOCS=quick $(python) -m sphinx -q -W --keep-going -b html docs docs/_build/quick

docs-serve: docs
	$(python) -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

lint: $(VENV)/.dev
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(VENV)/bin/clang-format --dry-run --Werror src/core/*.cpp src/core/*.hpp
	$(VENV)/bin/codespell
	$(python) -m mypy
	$(python) tools/public_names.py --check
	$(python) tools/stub.py --check

$(VENV)/.demo: $(sources)
	sh tools/setup.sh $(VENV) plot,progress
	@touch $@

$(VENV)/.lab: $(sources)
	sh tools/setup.sh $(VENV) lab,plot,progress
	@touch $@ $(VENV)/.demo

$(VENV)/.test: $(sources)
	sh tools/setup.sh $(VENV) test
	@touch $@ $(VENV)/.demo $(VENV)/.lab

$(VENV)/.docs: $(sources)
	sh tools/setup.sh $(VENV) docs
	@touch $@ $(VENV)/.demo

$(VENV)/.dev: $(sources)
	sh tools/setup.sh $(VENV) dev
	@touch $@ $(VENV)/.test $(VENV)/.demo $(VENV)/.lab

clean:
	rm -rf $(VENV) build out docs/_build docs/_figures docs/gallery docs/reference/api
