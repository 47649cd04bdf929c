# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
#
# make demo    set up everything, show the problem and the cure on an emulated KVM host (LAB_HOST=native: on this one)
# make test    set up everything, run all tests
# make help    the other targets

SHELL := /bin/bash
# What needs no root runs as the user whose clone this is, under sudo too.
AS_USER := setup/as-user
CARGO := setup/cargo
PYTHON := .venv/bin/python
LAB := PYTHONPATH=lab $(PYTHON) -m paracord_lab
KDIR ?= /lib/modules/$(shell uname -r)/build

.PHONY: help setup lab-setup build ready demo test test-unit test-lab test-long test-6.12 test-core test-rt test-arm64 test-setup test-new-machine bench lint generate lab sim guest install uninstall clean distclean

# Goals that need root: as a user all of make runs again, under sudo, so that it asks once.
ROOT_GOALS := $(filter lab-setup ready demo test test-unit test-lab test-long test-6.12 test-core test-rt test-arm64 test-setup test-new-machine bench $(if $(S),lab),$(MAKECMDGOALS))
ifneq ($(if $(ROOT_GOALS),$(filter-out 0,$(shell id -u))),)
.PHONY: $(MAKECMDGOALS) as-root
$(MAKECMDGOALS): as-root
	@:
as-root:
	@setup/as-root 'the lab makes root file systems and runs emulated hosts (files in this clone stay yours)' \
		$(MAKE) --no-print-directory $(MAKECMDGOALS)
else

help:
	@sed -n 's/^# make /make /p' Makefile
	@echo 'make build   the paracord binary: target/release/paracord'
	@echo 'make guest   the guest module for the running kernel (KDIR=... for another)'
	@echo 'make lab     the list of scenarios; make lab S=glitch runs one (ARGS="--rounds 5" etc.)'
	@echo 'make sim     the list of simulated mixes; make sim S=three-loops runs one, or a file (ARGS="--scheduler stock" etc.)'
	@echo 'make bench   benchmarks and long scenarios'
	@echo 'make test-long  tests that take minutes each, and have a shorter one or a scenario beside them (more than an hour)'
	@echo 'make test-6.12  the scheduler on the oldest kernel that has sched_ext (compiles it: a quarter of an hour)'
	@echo 'make test-core  the scheduler beside core scheduling, on a kernel that has it (compiles it: a quarter of an hour)'
	@echo 'make test-rt  actuator rt on Debian'"'"'s PREEMPT_RT kernel, which refuses ext (eight minutes)'
	@echo 'make test-arm64 frequencies, placement, the small VMM and the simulator on arm64 hosts (ten minutes more the first time)'
	@echo 'make test-setup         set-up as new users run it, on a fresh Debian 12 (two to ten minutes)'
	@echo 'make test-new-machine  the two commands above as a new user would run them, on fresh Debian 12 and 13 (two hours)'
	@echo 'make lint    all linters, as errors'
	@echo 'make install binary, manual pages, completions, systemd unit, example configuration of `make build` (DESTDIR, PREFIX); make uninstall'
	@echo 'make clean   build results; make distclean also the Python environment'

setup:
	@./setup.sh

lab-setup: setup
	@$(LAB) setup

# What `make install` copies: it builds nothing itself.
MANUAL := target/release/manual
PARACORD := $(CARGO) run -q --release --locked -p paracord --
build: setup
	@$(CARGO) build --release --locked
	@[ $(MANUAL)/done -nt target/release/paracord ] || { set -o pipefail; $(PARACORD) man $(MANUAL) && \
		for shell in bash zsh fish; do $(PARACORD) completions $$shell | $(AS_USER) tee $(MANUAL)/$$shell >/dev/null || exit; done && \
		$(AS_USER) touch $(MANUAL)/done; }

# Compiling and making the images wait for different things: side by side the first time.
ready:
	@$(MAKE) -s -j2 build lab-setup

demo: ready
	@$(LAB) run demo || test $$? -eq 3  # 3: it ran, nothing failed; its last lines say what stays open or is left out

test: test-unit test-lab

test-unit: setup
	@# Tests of counters open perf events, which most distributions forbid to users.
	PARACORD_CAPABILITIES=+perfmon $(CARGO) test --workspace --locked
	@$(LAB) agent --arch $$(uname -m) >/dev/null
	PYTHONPATH=lab $(AS_USER) $(PYTHON) -m pytest lab/tests -m "not lab"

test-lab: ready
	lab/run-tests

test-long: ready
	lab/run-tests -m "long and not arm64"

test-6.12: ready
	kernel=$$($(LAB) kernel sched-ext-6.12) && LAB_KERNEL=$$kernel lab/run-tests -m lab -k test_ext

test-core: ready
	kernel=$$($(LAB) kernel sched-core-7.3) && LAB_KERNEL=$$kernel lab/run-tests -m core

test-rt: ready
	kernel=$$($(LAB) tree preempt-rt) && LAB_KERNEL=$$kernel lab/run-tests -m preempt_rt

test-arm64: ready
	lab/run-tests -m arm64

test-setup: setup
	@PYTHONPATH=lab $(PYTHON) -m pytest lab/tests/test_new_machine.py -m new_machine

test-new-machine: test-setup
	@PYTHONPATH=lab $(PYTHON) -m pytest lab/tests/test_new_machine_whole.py -m new_machine

bench: ready
	@bench/run

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(PYTHON) setup/module-circles crates/*
	$(PYTHON) -m ruff check lab bench setup/module-circles
	$(PYTHON) -m ruff format --check lab bench setup/module-circles
	shellcheck setup.sh .ci/run $$(git ls-files | xargs grep -lE '^#!.*\b(ba)?sh$$')

# Regenerates what is generated and checked in; CI fails when that changes a file.
generate: setup
	$(CARGO) run -q --locked -p paracord-abi-generate
	$(CARGO) run -q --locked -p paracord-host --example document_config

ifdef S
lab: ready
	@$(LAB) run $(S) $(ARGS)
else
lab: setup
	@$(LAB) list
endif

MIXES := crates/sim/mixes
ifdef S
sim: setup
	@$(CARGO) run -q --release --locked -p paracord-sim -- run $(if $(wildcard $(MIXES)/$(S).mix),$(MIXES)/$(S).mix,$(S)) $(ARGS)
else
sim:
	@for mix in $(MIXES)/*.mix; do \
		printf '%-16s ' "$$(basename "$$mix" .mix)"; \
		awk '!/^#/ { exit } { sub(/^# */, ""); said = said " " $$0 } \
			END { if (match(said, /[.:]( |$$)/)) said = substr(said, 1, RSTART - 1); print substr(said, 2) }' "$$mix"; \
	done
endif

guest:
	@[ -d "$(KDIR)" ] || { echo "guest: no kernel headers at $(KDIR): install linux-headers-$$(uname -r), or say KDIR=DIRECTORY" >&2; exit 1; }
	$(MAKE) -C guest KDIR=$(KDIR)

PREFIX ?= /usr
install:
	@[ -x target/release/paracord ] && [ -e $(MANUAL)/done ] || { echo 'install: nothing is built: run `make build` first, as yourself' >&2; exit 1; }
	@# Rust from the lab's tree links to that Debian's C library.
	@[ -n "$(DESTDIR)" ] || target/release/paracord --version >/dev/null || \
		{ echo "install: this paracord was built for a newer distribution: install Rust with rustup, then try again" >&2; exit 1; }
	install -Dm755 target/release/paracord "$(DESTDIR)$(PREFIX)/bin/paracord"
	install -d "$(DESTDIR)$(PREFIX)/lib/systemd/system"
	sed 's|/usr/bin/|$(PREFIX)/bin/|' packaging/paracord.service >"$(DESTDIR)$(PREFIX)/lib/systemd/system/paracord.service"
	install -Dm644 packaging/paracord.sysusers "$(DESTDIR)$(PREFIX)/lib/sysusers.d/paracord.conf"
	install -Dm644 packaging/paracord.tmpfiles "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/paracord.conf"
	install -Dm644 -t "$(DESTDIR)$(PREFIX)/share/doc/paracord" README.md SECURITY.md docs/*.md
	install -Dm644 -t "$(DESTDIR)$(PREFIX)/share/man/man1" $(MANUAL)/*.1
	install -Dm644 $(MANUAL)/bash "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/paracord"
	install -Dm644 $(MANUAL)/zsh "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_paracord"
	install -Dm644 $(MANUAL)/fish "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/paracord.fish"
	[ -e "$(DESTDIR)/etc/paracord/paracord.toml" ] || install -Dm644 packaging/paracord.toml "$(DESTDIR)/etc/paracord/paracord.toml"

# The configuration stays: it is the operator's.
uninstall:
	@[ -n "$(DESTDIR)" ] || ! systemctl is-active --quiet paracord 2>/dev/null || \
		{ echo 'uninstall: paracord runs: systemctl disable --now paracord, then again' >&2; exit 1; }
	rm -f "$(DESTDIR)$(PREFIX)/bin/paracord" "$(DESTDIR)$(PREFIX)/lib/systemd/system/paracord.service" \
		"$(DESTDIR)$(PREFIX)/lib/sysusers.d/paracord.conf" "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/paracord.conf" \
		"$(DESTDIR)$(PREFIX)/share/man/man1/paracord.1" "$(DESTDIR)$(PREFIX)/share/man/man1"/paracord-*.1 \
		"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/paracord" \
		"$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_paracord" \
		"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/paracord.fish"
	rm -rf "$(DESTDIR)$(PREFIX)/share/doc/paracord"

clean:
	@# The link of setup/target; what somebody else's points to is not ours.
	@link=$$(readlink target) || exit 0; [ "$$link" != "$$($(AS_USER) setup/target)" ] || rm -rf "$$link"
	rm -rf target out
	$(MAKE) -s -C guest clean || true

distclean: clean
	rm -rf .venv

endif
