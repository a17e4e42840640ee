"""What a release is made of, and that it can be made again: the scripts of `contrib/release`."""

import json
import os
import re
import shutil
import subprocess
import tomllib

import pytest

from support.program import PROGRAMS, ROOT

RELEASE = ROOT / "contrib" / "release"


def run(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def text():
    done = run(RELEASE / "sbom")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sbom(text):
    return json.loads(text)


def tree(*flags):
    """Names and versions of what the programs are built from, as cargo says."""
    done = run(
        "cargo", "tree", "--locked", "--offline", *(f"--package={program}" for program in PROGRAMS), "--target", "x86_64-unknown-linux-gnu",
        "--prefix", "none", "--format", "{p}", *flags, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {tuple(re.match(r"(\S+) v(\S+)", line).groups()) for line in filter(None, done.stdout.splitlines())}


def test_the_list_of_parts_has_what_the_program_is_built_from_and_nothing_else(sbom):
    listed = {(it["name"], it["version"]) for it in [*sbom["components"], sbom["metadata"]["component"]]}
    assert listed == tree("--edges", "normal,build")
    names = {name for name, _ in listed}
    assert {"encke", "server", "httparse", "rustls", "aws-lc-sys", "cc"} <= names
    assert not {"proptest", "shuttle", "tungstenite", "tidy"} & names


def test_parts_have_the_checksums_of_the_lock_file_and_licences(sbom):
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(it["name"], it["version"]): it.get("checksum") for it in lock}
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    for part in sbom["components"]:
        checksum = checksums[part["name"], part["version"]]
        hashes = [{"alg": "SHA-256", "content": checksum}] if checksum else None
        assert part.get("hashes") == hashes, part
        assert part.get("purl") == (f"pkg:cargo/{part['name']}@{part['version']}" if checksum else None)
        (licence,) = part["licenses"]
        assert "/" not in licence["expression"]
        terms = re.split(r" OR | AND ", re.sub(r"[()]", "", licence["expression"]))
        assert allowed & set(terms), part


def test_the_list_is_cyclonedx_whose_references_are_known(sbom):
    """What its schema demands and this list uses."""
    assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.5", 1)
    parts = [*sbom["components"], sbom["metadata"]["component"]]
    assert all({"type", "name"} <= part.keys() for part in parts)
    references = [part["bom-ref"] for part in parts]
    assert len(references) == len(set(references))
    assert sorted(it["ref"] for it in sbom["dependencies"]) == sorted(references)
    for dependency in sbom["dependencies"]:
        assert set(dependency["dependsOn"]) <= set(references)
        assert dependency["ref"] not in dependency["dependsOn"]
    needs = {it["ref"]: it["dependsOn"] for it in sbom["dependencies"]}
    (wire,) = (ref for ref in needs if ref.startswith("encke:wire@"))
    assert any(need.startswith("pkg:cargo/httparse@") for need in needs[wire])
    # All is reached from the programs.
    reached, ahead = set(), [part["bom-ref"] for part in parts if part["type"] == "application"]
    assert len(ahead) == len(PROGRAMS)
    while ahead:
        reference = ahead.pop()
        if reference not in reached:
            reached.add(reference)
            ahead += needs[reference]
    assert reached == set(references)


def test_the_list_is_the_same_each_time(text):
    assert run(RELEASE / "sbom").stdout == text


ADVISORY = """```toml
[advisory]
id = "RUSTSEC-2026-9999"
package = "httparse"
date = "2026-11-01"
categories = ["memory-corruption"]

[versions]
patched = [">= {patched}"]
```

# An advisory of a test

It says nothing.
"""


@pytest.mark.skipif(not shutil.which("cargo-deny"), reason="cargo-deny is not installed: cargo install cargo-deny")
def test_an_advisory_of_a_database_on_this_machine_is_found(tmp_path):
    """Without the network, as `make deny` looks for them."""
    config = tmp_path / "deny.toml"
    config.write_text((ROOT / "deny.toml").read_text() + f'\n[advisories]\ndb-path = "{tmp_path}"\n')

    def check():
        return run("cargo", "deny", "--offline", "--config", config, "check", "advisories", cwd=ROOT)

    # The directory has a name that the program makes of an address.
    database = tmp_path / re.search(r"advisory-db-[0-9a-f]+", check().stderr)[0]
    (database / "crates" / "httparse").mkdir(parents=True)
    run("git", "init", database)

    def commit(patched):
        (database / "crates" / "httparse" / "RUSTSEC-2026-9999.md").write_text(ADVISORY.format(patched=patched))
        git = ["git", "-C", database, "-c", "user.name=test", "-c", "user.email=test@localhost"]
        run(*git, "add", ".")
        assert run(*git, "commit", "-m", "test").returncode == 0
        (database / ".git" / "FETCH_HEAD").touch()

    commit("0.1.0")
    done = check()
    assert done.returncode == 0, done.stderr
    commit("99.0.0")
    done = check()
    assert done.returncode != 0 and "RUSTSEC-2026-9999" in done.stderr, done.stderr


# A cargo that writes down how it was called, and makes programs of the environment that PROGRAM asks for.
CARGO = """#!/bin/sh
echo "$@" >"$CALLED"
env >>"$CALLED"
mkdir -p "$CARGO_TARGET_DIR/release"
for name in encke encke-proxy encke-lab; do eval "echo $PROGRAM" >"$CARGO_TARGET_DIR/release/$name"; done
"""


@pytest.fixture
def imitated(tmp_path):
    """Runs a script with that cargo."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "cargo").write_text(CARGO)
    (programs / "cargo").chmod(0o755)
    called = tmp_path / "called"

    def imitated(script, program, *arguments):
        env = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "CALLED": str(called),
            "PROGRAM": program,
            "CARGO_TARGET_DIR": str(tmp_path / "target"),
            "CARGO_HOME": "/home/someone/.cargo",
            "RUSTFLAGS": "-Copt-level=3",
        }
        return run(RELEASE / script, *arguments, env=env), called.read_text()

    return imitated


def test_a_build_takes_no_name_of_a_directory_and_no_other_version(imitated):
    done, called = imitated("build", "x", "--quiet")
    assert done.returncode == 0, done.stderr
    assert called.startswith("build --release --locked --package encke --package encke-proxy --package encke-lab --quiet\n")
    flags = f"RUSTFLAGS=-Copt-level=3 --remap-path-prefix={ROOT}=/encke --remap-path-prefix=/home/someone/.cargo=/cargo\n"
    assert flags in called
    for name in ["CFLAGS", "CXXFLAGS"]:
        assert re.search(rf"^{name}=.*-ffile-prefix-map={ROOT}=/encke -ffile-prefix-map=/home/someone", called, re.M)


def test_builds_that_differ_or_name_their_directory_are_told(imitated, tmp_path):
    done, called = imitated("reproduce", "same", tmp_path)
    assert done.returncode == 0 and "both builds are the same" in done.stdout, done.stderr
    assert "/a-directory-with-a-longer-name/target" in called
    done, _ = imitated("reproduce", "$(date +%N)", tmp_path)
    assert done.returncode == 1 and "differ" in done.stderr
    done, _ = imitated("reproduce", "$CARGO_TARGET_DIR", tmp_path)
    assert done.returncode == 1 and "names the directory" in done.stderr
    assert not list(tmp_path.glob("encke-reproduce.*")), "nothing is left"
