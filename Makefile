# SPDX-License-Identifier: Apache-2.0
# A short front for Meson: each target is one meson or ninja call. `make help` lists them.
BUILD ?= build
PYTHON ?= /usr/bin/python3
FUZZ_S ?= 60
C_FILES = find include src tests examples -name '*.[ch]'
SAN = -Dbuildtype=debugoptimized -Ddefault_library=static -Dman=disabled
INSTRUCTION = pick the pear from the counter and place it in the plate

.PHONY: all help demo test asan tsan clang cov bench tidy fuzz format format-check layers install deb acceptance interop blackhole clean
all: $(BUILD)/build.ninja ## build ./gr00t and libgr00t
	@ninja -C $(BUILD)
	@ln -sf $(BUILD)/src/gr00t gr00t
$(BUILD)/build.ninja:
	@meson setup $(MESON_ARGS) $(BUILD)
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile
demo: all ## make the demo snapshot, predict on its frame, draw the chunk
	@./gr00t synth demo $(BUILD)/demo
	@./gr00t predict --model $(BUILD)/demo --image $(BUILD)/demo/demo/frame.png --state $(BUILD)/demo/demo/state.json \
	  --instruction "$(INSTRUCTION)" --plot demo_chunk.svg --golden $(BUILD)/demo/demo/golden
	@echo "Plot: demo_chunk.svg. Synthetic weights; with real ones: ./gr00t predict --model SNAPSHOT_DIR ... (README.md, 'Real weights')"
test: all ## all tests; the last line counts them
	@$(PYTHON) tools/run_tests.py $(BUILD)
asan: ## unit, kernel and service tests with address and undefined-behaviour sanitizers
	@$(PYTHON) tools/run_tests.py --setup "$(SAN) -Db_sanitize=address,undefined" --timeout-multiplier 3 --suite unit --suite values --suite kernels --suite blackhole --suite fuzz --suite http $(BUILD)-asan
tsan: ## unit and service tests with the thread sanitizer (the kernels start no thread)
	@$(PYTHON) tools/run_tests.py --setup "$(SAN) -Db_sanitize=thread" --timeout-multiplier 5 --suite unit --suite http $(BUILD)-tsan
clang: ## unit and kernel tests, built with clang
	@CC=clang $(PYTHON) tools/run_tests.py --setup "$(SAN)" --suite unit --suite values --suite kernels $(BUILD)-clang
cov: ## line coverage of the tests, HTML in build-cov/meson-logs (umask: tests that run as nobody write counts too)
	@umask 0; $(PYTHON) tools/run_tests.py --timeout-multiplier 3 --setup "$(SAN) -Db_coverage=true" $(BUILD)-cov
	@ninja -C $(BUILD)-cov coverage-text coverage-html && tail -n 12 $(BUILD)-cov/meson-logs/coverage.txt
bench: all ## speed per stage on a synthetic snapshot: MODEL=DIR (default: the demo one)
	@test -n "$(MODEL)" || ./gr00t synth demo $(BUILD)/demo
	@./gr00t bench engine --model $(or $(MODEL),$(BUILD)/demo) --runs 5
tidy: all ## clang-tidy over all sources, then cppcheck
	@$(PYTHON) tools/tidy.py $(BUILD)
fuzz: ## each fuzz target for FUZZ_S seconds (clang)
	@tools/acceptance.sh --only fuzz --seconds $(FUZZ_S) --no-report
format: ## clang-format over the tree, in place
	@$(C_FILES) | xargs clang-format -i
format-check: ## fails when clang-format would change a file
	@$(C_FILES) | xargs clang-format --dry-run -Werror
layers: ## the include rule and the other rules that a script can check
	@$(PYTHON) tools/layers.py
install: all ## to the prefix of MESON_ARGS, default /usr/local; DESTDIR is honoured
	@meson install -C $(BUILD) --no-rebuild
deb: all ## Debian package gr00t_VERSION_ARCH.deb in the build folder
	@tools/deb.sh $(BUILD)
acceptance: all ## the long rows; writes docs/acceptance/DATE.md
	@tools/acceptance.sh
interop: all ## packages with the tools of others (./setup.sh --interop); writes docs/acceptance/interop-DATE.md
	@tools/interop.sh
blackhole: all ## the Blackhole device on the simulator (TTSIM_LIB); writes docs/acceptance/blackhole-DATE.md. FULL=SNAPSHOT: the published size too
	@tools/blackhole.sh $(if $(FULL),--full $(FULL)) $(BUILD)
clean: ## removes the build folders and what demo left
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-cov $(BUILD)-clang $(BUILD)-fuzz gr00t demo_chunk.svg
