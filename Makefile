# `make run` starts a server, `make test` checks everything, `make bench` measures.

CARGO_PROFILE ?= dev
FUZZ_SECONDS ?= 3
# The same inputs in each run: a test that others pass does not fail here by luck. FUZZ_SEED=0 tries new ones.
export FUZZ_SEED ?= 1

# Where cargo puts binaries: the profile `dev` has its own name for that.
target := $(or $(CARGO_TARGET_DIR),target)
profile_dir := $(if $(filter dev,$(CARGO_PROFILE)),debug,$(CARGO_PROFILE))
# The engine of a cluster, for tests that need a real one: harness/tests/setup installs it.
export NATS_SERVER ?= $(abspath harness/tests/.venv/bin/nats-server)

# Where nothing has been compiled yet, as on a new machine, keeping what the next build could use again costs time.
export CARGO_INCREMENTAL ?= $(if $(wildcard $(target)/$(profile_dir)/incremental),1,0)

cargo_test := cargo test --quiet --workspace --profile $(CARGO_PROFILE)

# Seconds that one Rust test may take; the one of the black-box tests is in harness/tests/pytest.ini.
TEST_SECONDS ?= 600
with_limit := --config "target.'cfg(unix)'.runner = ['$(abspath harness/tests/limit)', '$(TEST_SECONDS)']"

# What this run of `make test` has skipped and why, a line each.
skipped := $(abspath $(target))/skipped
skip = mkdir -p $(dir $(skipped)) && echo "skipped: $(1)" | tee -a $(skipped)

.PHONY: run lab proxy programs cluster deb test begin setup check unit build bare fuzz nightly deny release sbom reproducible black-box chaos sim planted faults bench fmt clean

run:
	cargo run --release -p encke -- serve --demo

# The tools that load, measure and prove a server: target/release/encke-lab.
lab:
	cargo build --release -p encke-lab

# The TCP proxy and the hello-world server: target/release/encke-proxy.
proxy:
	cargo build --release -p encke-proxy

programs:
	cargo build --release -p encke -p encke-proxy -p encke-lab

# Three servers of NATS and three nodes behind a proxy, until Ctrl-C.
cluster:
	cargo build --release -p encke -p encke-proxy
	NATS_SERVER= contrib/cluster/try --encke $(target)/release/encke --directory $(target)/cluster

# A package for Debian, with unit, manual pages and completions: target/debian.
deb: programs
	@command -v cargo-deb >/dev/null || { echo "make deb needs cargo-deb: cargo install cargo-deb"; exit 1; }
	mkdir -p target/deb/man
	for program in encke encke-proxy encke-lab; do \
	    $(target)/release/$$program man --output target/deb/man && \
	    for shell in bash zsh fish; do $(target)/release/$$program completions $$shell > target/deb/$$program.$$shell; done; \
	done
	cargo deb -p encke --no-build --strip

# In this order: what the tests need, then what fails soonest, the whole server last.
test: begin setup check unit fuzz deny black-box
	@if [ -s $(skipped) ]; then cat $(skipped); else echo "nothing was skipped"; fi

begin:
	@rm -f $(skipped)

setup:
	harness/tests/setup

check:
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --profile $(CARGO_PROFILE) -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --document-private-items --profile $(CARGO_PROFILE)
	harness/tests/.venv/bin/python harness/tests/planted/run --check

unit:
	$(cargo_test) $(with_limit)

# As the tests build it: built alone it would have other features of its dependencies, and all be compiled again.
build:
	$(cargo_test) --no-run

fuzz:
	@if cargo +"$${FUZZ_TOOLCHAIN:-nightly}" --version >/dev/null 2>&1; then \
	    harness/fuzz/run $(FUZZ_SECONDS); \
	else \
	    $(call skip,fuzzing: it needs a nightly toolchain (rustup toolchain install nightly --profile minimal)); \
	fi

# What takes too long for each change: every fuzz target for ten minutes with new inputs, about two hours on two cores, and a million
# events through three decoders. Then `harness/fuzz/minimise` keeps what the fuzzing has found.
NIGHTLY_SECONDS ?= 600
nightly: setup build
	FUZZ_SEED=0 harness/fuzz/run $(NIGHTLY_SECONDS)
	ENCKE=$(abspath $(target)/$(profile_dir)/encke) ENCKE_SSE_EVENTS=1000000 ENCKE_SSE_SEED=$$(date +%s) \
	    harness/tests/.venv/bin/python -m pytest harness/tests/test_sse_decoders.py

# Licences, bans and sources need nothing more. Advisories need their database, which `cargo deny fetch db` brings from the network.
ADVISORIES ?= $(or $(CARGO_HOME),$(HOME)/.cargo)/advisory-dbs
deny:
	@if command -v cargo-deny >/dev/null; then \
	    cargo deny --offline --log-level error check bans licenses sources && \
	    if [ -n "$(wildcard $(ADVISORIES)/*)" ]; then \
	        cargo deny --offline --log-level error check advisories; \
	    else \
	        $(call skip,advisories about dependencies: $(ADVISORIES) has no database of them (cargo deny fetch db)); \
	    fi; \
	else \
	    $(call skip,licences of dependencies and advisories about them: checking them needs cargo-deny (cargo install cargo-deny)); \
	fi

# The program of a release, whose bytes do not depend on where it is built; what it is built from, as CycloneDX; and whether two
# builds in two directories are the same, which takes twice as long as one.
release:
	contrib/release/build

sbom:
	@mkdir -p target
	contrib/release/sbom >target/encke.cdx.json
	@echo "target/encke.cdx.json"

reproducible:
	contrib/release/reproduce

# Five files at a time: they mostly wait, for a timeout, a browser or a disk. Their order is that of harness/tests/conftest.py.
black-box: setup build
	ENCKE=$(abspath $(target)/$(profile_dir)/encke) ENCKE_SKIPPED=$(skipped) harness/tests/.venv/bin/python -m pytest harness/tests -n 5 --dist loadfile --no-loadscope-reorder

# `make test` on a machine that has nothing but Debian's smallest system: needs root and debootstrap.
bare:
	harness/tests/bare

# Breaks a cluster for an hour (CHAOS="--minutes 5"), and checks what its clients see. Reports are written to target/chaos.
CHAOS ?= --minutes 60
chaos: setup build
	cd harness/tests && ENCKE=$(abspath $(target)/$(profile_dir)/encke) .venv/bin/python -m checker --report $(abspath $(target)/chaos) $(CHAOS)

# Simulated lives of servers and of clusters: SEEDS of them, from the seed SEED on. One that fails is told with its seed.
# Assertions are on in whatever profile.
SEEDS ?= 100000
SEED ?= 0
sim: export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS = true
sim:
	SEEDS=$(SEEDS) SEED=$(SEED) $(cargo_test) --lib -- sim::lives
	SEEDS=$(SEEDS) SEED=$(SEED) cargo test --quiet -p sim --profile $(CARGO_PROFILE) --lib -- lives
	SEEDS=$(SEEDS) SEED=$(SEED) $(cargo_test) --test simulation

# Plants each bug of harness/tests/planted in a copy of the sources, and sees whether its check fails. Takes about an hour; PLANTED="router
# graph-sync" plants those whose names begin so.
planted: setup
	harness/tests/.venv/bin/python harness/tests/planted/run $(PLANTED)

# Faults on real sockets, at full size (FAULTS="--scale 0.01 resets"): needs root and a release build, and at full size about 16 GiB
# of memory and an hour. The report is written to target/faults.md.
FAULTS ?=
faults: setup programs
	cd harness/tests && ENCKE=$(abspath $(target)/release/encke) .venv/bin/python -m faults --report $(abspath $(target)/faults.md) $(FAULTS)

# Needs root (for sysctls, which are given back) and 12 GiB of memory. Takes about 40 minutes; the
# report is written to target/bench.md. Memory is measured without a history, which grows to its own bound.
bench_with = $(target)/release/encke-lab compare $(1) --server $(target)/release/encke --markdown $(target)/bench.md

# nginx is compared over TLS where its module for streams is installed.
nchan := $(wildcard /usr/lib/nginx/modules/ngx_nchan_module.so)

bench: programs
	rm -f $(target)/bench.md
	$(call bench_with,memory) --serve-arg=--history-bytes=0
	$(call bench_with,connect)
	$(call bench_with,fanout) --connections 18000
	$(call bench_with,fanout) --connections 100000 --rounds 5 --events 5
	$(call bench_with,fairness) --connections 100000
	$(call bench_with,publish)
	$(call bench_with,tls) $(if $(nchan),,--peers plain,tokens,tls,rustls)
	@[ -n "$(nchan)" ] || echo "nginx is not measured over TLS: it needs nginx-light and libnginx-mod-nchan"
	$(call bench_with,tls) --connections 100000 --parts memory --peers plain,tls
	lab/benches/proxy.py --encke $(target)/release/encke | tee -a $(target)/bench.md
	cargo run --quiet --release -p reactor --example account | tee -a $(target)/bench.md
	for part in memory "memory rustls" events handshakes; do \
	    cargo run --quiet --release -p tls --example measure -- $$part | tee -a $(target)/bench.md; \
	done
	$(call bench_with,flood)
	@if [ -x harness/tests/.venv/bin/python ]; then \
	    for part in bench_erlang.py "bench_presence.py --users 100000 --workers 8 --threads 8" "bench_snapshot.py --users 100000"; do \
	        ENCKE=$(abspath $(target)/release/encke) harness/tests/.venv/bin/python harness/tests/$$part | tee -a $(target)/bench.md; \
	    done; \
	else \
	    echo "the Erlang node, presence and a cluster's snapshots are not measured: they need what \`make setup\` installs"; \
	fi
	@printf '\n## The log of a cluster\n\n' | tee -a $(target)/bench.md
	cargo run --quiet --release -p cluster --example apply -- 400000 500 | tee -a $(target)/bench.md
	cargo run --quiet --release -p replication --example measure_replication | tee -a $(target)/bench.md
	cargo build --release -p graph --example store
	crates/graph/bench/run $(abspath $(target)/release/encke) $(abspath $(target)/release/examples/store) \
	    | tee -a $(target)/bench.md

fmt:
	cargo fmt --all

clean:
	cargo clean
	rm -rf harness/tests/.venv harness/tests/node_modules harness/fuzz/target
