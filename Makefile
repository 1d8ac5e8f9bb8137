# The everyday commands; the build itself is described in CMakeLists.txt and CMakePresets.json.

PREFIX ?= /usr/local
PRESET ?= release
JOBS   ?= $(shell nproc)
# One test more than there are cores, as many of them wait.
TESTS  ?= $(shell expr $(JOBS) + 1)
# The names of all files that `make install` installed, for `make uninstall`.
INSTALLED = build/$(PRESET)/installed_files.txt
# What to build; empty: all.
TARGETS =
# The plug-in that divides runs among processes is built where there is an MPI.
MPI = $(if $(shell command -v mpicxx),-DATTN_MPI=ON)
PYTHON_PACKAGE = -DATTN_PYTHON_PACKAGE=ON
# What `make wheel` makes a wheel for.
PYTHON ?= /usr/bin/python3
# The tools that scripts/demo runs.
DEMO_TOOLS = attn-compute attn-view explain-away-stats

all:      ## build the tools into build/release/bin (PRESET=debug, asan, clang for the others)
	@scripts/install-deps --check build
	@$(MAKE) --no-print-directory compile TARGETS=tools

python:   ## build the Python package into build/release/python; installs missing Debian packages
	@scripts/install-deps build python
	@$(MAKE) --no-print-directory compile TARGETS=attn-python OPTIONS=$(PYTHON_PACKAGE)
	@echo "PYTHONPATH=$(CURDIR)/build/$(PRESET)/python /usr/bin/python3 -c 'import attnkit'"

test:     ## build and run all tests; installs missing Debian packages
	@scripts/install-deps build python test plots
	@$(MAKE) --no-print-directory compile OPTIONS=$(PYTHON_PACKAGE)
	ctest --preset $(PRESET) --parallel $(TESTS)

test-long: ## the same with every case of the sets from which `make test` takes a sample
	ATTN_LONG=1 $(MAKE) --no-print-directory test

test-gpu: ## compare attention on a GPU with the library: PYTHON has PyTorch 2.7 or later, and the package as built or installed
	cd tests/python && ATTN_GPU=1 PYTHONPATH=$(CURDIR)/build/$(PRESET)/python $(PYTHON) -m unittest -v test_torch_gpu

sanitize: ## the same with clang and its sanitizers; takes a quarter of an hour
	@scripts/install-deps build python test plots lint
	@$(MAKE) --no-print-directory compile PRESET=clang OPTIONS=$(PYTHON_PACKAGE)
	ctest --preset clang --parallel $(TESTS) --exclude-regex '^tools/test_(bits|endless|figure_layout|figures|heatmap|ranks|readme|train_ranks)$$'

claims:   ## build, and check the claims of data/claims; installs missing Debian packages
	@scripts/install-deps build test
	@$(MAKE) --no-print-directory compile
	build/$(PRESET)/bin/claim-check data/claims/*.toml --junit build/$(PRESET)/claims.xml --require-perturb $(if $(SKIP),--skip $(SKIP))

falsify-claims: ## build, and check that the claims of data/claims can fail; takes two minutes
	@scripts/install-deps build test
	@$(MAKE) --no-print-directory compile
	build/$(PRESET)/bin/claim-check data/claims/*.toml --falsify $(if $(SKIP),--skip $(SKIP))

demo:     ## build and show the tools at work; installs missing Debian packages
	@scripts/install-deps build
	@$(MAKE) --no-print-directory compile TARGETS="$(DEMO_TOOLS)"
	ATTN_BIN=$(CURDIR)/build/$(PRESET)/bin scripts/demo

train-demo: ## build, and train three small models side by side, with a picture; takes a minute
	@scripts/install-deps build plots
	@$(MAKE) --no-print-directory compile TARGETS=attn-train
	ATTN_BIN=$(CURDIR)/build/$(PRESET)/bin scripts/train-demo

cluster-demo: ## build, and run a requeued job, four seeds and an array on a private Slurm; takes a minute
	@scripts/install-deps build cluster
	@$(MAKE) --no-print-directory compile TARGETS="attn-train seed-test"
	ATTN_BIN=$(CURDIR)/build/$(PRESET)/bin scripts/slurm/demo

findings: ## build, and write the tables of the page of experiments from the logs that are kept; takes seconds
	@scripts/install-deps --check build
	@$(MAKE) --no-print-directory compile TARGETS=seed-test
	PATH=$(CURDIR)/build/$(PRESET)/bin:$$PATH /usr/bin/python3 scripts/experiments/write-findings

experiments: ## build, train all models of scripts/experiments (DATA=FOLDER, see there), and keep the logs; takes a day
	@scripts/install-deps build plots
	@$(MAKE) --no-print-directory compile TARGETS=tools
	@for file in scripts/experiments/[am][0-9].mk; do for goal in all keep; do \
	  $(MAKE) --no-print-directory -f $$file -j$(JOBS) BIN=build/$(PRESET)/bin $$goal || exit; done; done

figures:  ## build, and draw the figures of the literature into build/figures; installs missing packages
	@scripts/install-deps build plots
	@$(MAKE) --no-print-directory compile
	@$(MAKE) --no-print-directory -f scripts/figures.mk BIN=build/$(PRESET)/bin OUT=build/figures

bench:    ## build and measure; `scripts/install-deps peers` adds PyTorch, POT, SciPy and oneDNN to compare with
	@scripts/install-deps --check build bench
	@$(MAKE) --no-print-directory compile
	ATTN_BIN=$(CURDIR)/build/$(PRESET)/bin tests/bench/run --json build/$(PRESET)/bench.json

bench-compare: ## build, and compare the speed with BASE, a commit or a folder with a build; CASES and COMMANDS choose
	$(if $(BASE),,$(error bench-compare: say what to compare with, as in `make bench-compare BASE=main`))
	@scripts/install-deps --check build bench
	@$(MAKE) --no-print-directory compile TARGETS="attn-bench tools"
	@ATTN_BIN=$(CURDIR)/build/$(PRESET)/bin tests/bench/compare $(BASE) $(if $(CASES),--cases "$(CASES)") $(if $(COMMANDS),--commands "$(COMMANDS)")

bench-view: ## build, and measure how fast Chromium opens a page of attn-view
	@scripts/install-deps build bench browser
	@$(MAKE) --no-print-directory compile TARGETS=attn-view
	@ATTN_BIN=$(CURDIR)/build/$(PRESET)/bin tests/bench/view

axe:      ## build, and look for barriers in a page of attn-view with axe-core, which npm fetches
	@scripts/install-deps build bench browser
	@$(MAKE) --no-print-directory compile TARGETS=attn-view
	npm install --silent --no-audit --no-fund --prefix build/axe axe-core@4.14
	@ATTN_BIN=$(CURDIR)/build/$(PRESET)/bin tests/bench/view --axe build/axe/node_modules/axe-core/axe.min.js

same-results: ## build, and check that some 400 commands have the results of BASE, a commit or a folder with a build
	$(if $(BASE),,$(error same-results: say what to compare with, as in `make same-results BASE=main`))
	@scripts/install-deps build test
	@$(MAKE) --no-print-directory compile TARGETS=tools
	ATTN_BASE=$$(tests/bench/base_build.py $(BASE)) ATTN_BIN=build/$(PRESET)/bin ATTN_SOURCE=. \
	  PYTHONPATH=tests/tools /usr/bin/python3 -m unittest test_same_results

install: all  ## install the tools and the library into PREFIX (/usr/local; DESTDIR is honoured)
	cmake --install build/$(PRESET) --prefix $(abspath $(PREFIX))
	@sed 's|^|$(DESTDIR)|' build/$(PRESET)/install_manifest.txt | \
	  sort -u - $(wildcard $(INSTALLED)) -o $(INSTALLED)

uninstall:  ## remove what `make install` put into PREFIX
	@scripts/uninstall $(INSTALLED) $(abspath $(PREFIX))

package: all  ## build a Debian package, build/release/attnkit_*.deb
	@scripts/install-deps --check package
	cd build/$(PRESET) && cpack

wheel:    ## build a wheel with the tools, build/release/attnkit-*.whl; PYTHON names another Python than Debian's
	@scripts/install-deps build python wheel
	@$(MAKE) --no-print-directory compile TARGETS="tools attn-python" OPTIONS=$(PYTHON_PACKAGE)
	@scripts/make-wheel build/$(PRESET) $(PYTHON)

dist:     ## build an archive that runs where it is unpacked, build/release/attnkit-*.tar.xz
	@scripts/install-deps build dist
	@$(MAKE) --no-print-directory compile TARGETS=tools
	@scripts/make-dist build/$(PRESET)

release-check: package wheel dist  ## try package, wheel and archive on bare Debian systems; as root; takes a quarter of an hour
	@scripts/install-deps release
	@scripts/check-release build/$(PRESET)

format:   ## format the C++ sources in place
	@scripts/install-deps --check lint
	git ls-files -co --exclude-standard 'lib/*.?pp' 'tools/*.?pp' 'tests/*.?pp' | xargs -r clang-format -i

lint:     ## the checks that need no full build, clang-tidy among them
	.ci/run deps format layering top-level shell python page tidy

clean:    ## remove build/
	rm -rf build

help:     ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 17

compile:
	@cmake --preset $(PRESET) $(MPI) $(OPTIONS) >/dev/null
	cmake --build --preset $(PRESET) --parallel $(JOBS) $(if $(TARGETS),--target $(TARGETS))

.PHONY: all python test test-long test-gpu sanitize claims falsify-claims demo train-demo cluster-demo findings experiments figures bench bench-compare bench-view axe same-results install uninstall package wheel dist release-check format lint clean help compile
