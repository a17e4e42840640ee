# `make run` starts a server, `make test` checks everything, `make bench` measures.

CARGO_PROFILE ?= dev
FUZZ_SECONDS ?= 5

# Where cargo puts binaries: the profile `dev` has its own name for that.
target := $(or $(CARGO_TARGET_DIR),target)
profile_dir := $(if $(filter dev,$(CARGO_PROFILE)),debug,$(CARGO_PROFILE))
cargo_test := cargo test --quiet --workspace --profile $(CARGO_PROFILE)

# Seconds that one Rust test may take; the one of the black-box tests is in tests/pytest.ini.
TEST_SECONDS ?= 240
with_limit := --config "target.'cfg(unix)'.runner = ['$(abspath tests/limit)', '$(TEST_SECONDS)']"

# What this run of `make test` has skipped and why, a line each.
skipped := $(abspath $(target))/skipped
skip = mkdir -p $(dir $(skipped)) && echo "skipped: $(1)" | tee -a $(skipped)

.PHONY: run test begin setup check unit build fuzz deny black-box bench fmt clean

run:
	cargo run --release -p encke -- serve --demo

# In this order: what the tests need, then what fails soonest, the whole server last.
test: begin setup check unit fuzz deny black-box
	@if [ -s $(skipped) ]; then cat $(skipped); else echo "nothing was skipped"; fi

begin:
	@rm -f $(skipped)

setup:
	tests/setup

check:
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --profile $(CARGO_PROFILE) -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --document-private-items --profile $(CARGO_PROFILE)

unit:
	$(cargo_test) $(with_limit)

# As the tests build it: built alone it would have other features of its dependencies, and all be compiled again.
build:
	$(cargo_test) --no-run

fuzz:
	@if cargo +nightly --version >/dev/null 2>&1; then \
	    fuzz/run $(FUZZ_SECONDS); \
	else \
	    $(call skip,fuzzing: it needs a nightly toolchain (rustup toolchain install nightly --profile minimal)); \
	fi

# Advisories need a database from the network; licences, bans and sources do not.
deny:
	@if command -v cargo-deny >/dev/null; then \
	    cargo deny --offline --log-level error check bans licenses sources; \
	else \
	    $(call skip,licences of dependencies: checking them needs cargo-deny (cargo install cargo-deny)); \
	fi

# Three files at a time: they mostly wait, for a timeout, a browser or a disk.
black-box: setup build
	ENCKE=$(abspath $(target)/$(profile_dir)/encke) ENCKE_SKIPPED=$(skipped) tests/.venv/bin/python -m pytest tests -n 3 --dist loadfile

# Needs root (for sysctls, which are given back) and 12 GiB of memory. Takes about half an hour; the
# report is written to target/bench.md.
bench_with = $(target)/release/encke-bench $(1) --server $(target)/release/encke --markdown $(target)/bench.md

# nginx is compared over TLS where its module for streams is installed.
nchan := $(wildcard /usr/lib/nginx/modules/ngx_nchan_module.so)

bench:
	cargo build --release -p encke -p bench
	rm -f $(target)/bench.md
	$(call bench_with,memory)
	$(call bench_with,connect)
	$(call bench_with,fanout) --connections 18000
	$(call bench_with,fanout) --connections 100000 --rounds 5 --events 5
	$(call bench_with,fairness) --connections 100000
	$(call bench_with,publish)
	$(call bench_with,tls) $(if $(nchan),,--peers plain,tokens,tls,rustls)
	@[ -n "$(nchan)" ] || echo "nginx is not measured over TLS: it needs nginx-light and libnginx-mod-nchan"
	$(call bench_with,tls) --connections 100000 --parts memory --peers plain,tls
	benches/proxy.py --encke $(target)/release/encke | tee -a $(target)/bench.md
	cargo run --quiet --release -p reactor --example account | tee -a $(target)/bench.md
	for part in memory "memory rustls" events handshakes; do \
	    cargo run --quiet --release -p tls --example measure -- $$part | tee -a $(target)/bench.md; \
	done
	$(call bench_with,flood)
	@if [ -x tests/.venv/bin/python ]; then \
	    ENCKE=$(abspath $(target)/release/encke) tests/.venv/bin/python tests/bench_erlang.py | tee -a $(target)/bench.md; \
	else \
	    echo "the Erlang node is not measured: it needs what \`make setup\` installs"; \
	fi
	cargo build --release -p graph --example store
	crates/graph/bench/run $(abspath $(target)/release/encke) $(abspath $(target)/release/examples/store) \
	    | tee -a $(target)/bench.md

fmt:
	cargo fmt --all

clean:
	cargo clean
	rm -rf tests/.venv tests/node_modules fuzz/target
