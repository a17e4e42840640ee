"""The runner of planted bugs: what counts as found, on a small tree of its own."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

RUN = pathlib.Path(__file__).parent / "planted/run"

SOURCE = """
pub fn double(number: u32) -> u32 {
    number * 2
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_is_doubled_to_four() {
        assert_eq!(super::double(2), 4);
    }

    #[test]
    fn nothing_stays_nothing() {
        let mut left = super::double(0);
        while left > 0 {
            std::thread::yield_now();
            left = left.max(1);
        }
    }
}
"""


def entry(bug, find="number * 2", replace="number * 3", test="two_is_doubled_to_four", **others):
    fields = {
        "name": f"toy-{bug}",
        "file": "crates/toy/src/lib.rs",
        "find": find,
        "replace": replace,
        "command": f"cargo test -p toy --lib {test}",
        "user": "A wrong sum.",
        **others,
    }
    lines = (f"{key} = {str(value).lower() if value is True else repr(value)}" for key, value in fields.items())
    return "[[bug]]\n" + "\n".join(lines) + "\n"


@pytest.fixture
def tree(tmp_path):
    """A workspace of one crate, with an empty list of bugs."""
    for path, text in {
        "Cargo.toml": '[workspace]\nmembers = ["crates/toy"]\nresolver = "2"\n',
        "crates/toy/Cargo.toml": '[package]\nname = "toy"\nversion = "0.1.0"\nedition = "2024"\n',
        "crates/toy/src/lib.rs": SOURCE,
        ".gitignore": "target\nCargo.lock\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "harness/tests/planted").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def run(tree, *arguments, entries=None):
    if entries is not None:
        (tree / "harness/tests/planted/toy.toml").write_text("\n".join(entries))
    environment = {**os.environ, "CARGO_NET_OFFLINE": "true"}
    command = [sys.executable, RUN, "--root", tree, *arguments]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=200, env=environment)


def results(tree):
    lines = (tree / "target/planted/report.md").read_text().splitlines()
    cells = [line.split("|") for line in lines if line.startswith("| `")]
    return {cell[1].strip(" `").removeprefix("toy-"): cell[2].strip() for cell in cells}


def test_a_bug_is_found_by_a_failing_test_and_by_nothing_else(tree):
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo")
    done = run(
        tree,
        *("--seconds", 5),
        entries=[
            entry("found"),
            entry("survives", replace="number + number"),
            entry("is-known-to-survive", replace="number << 1", survives="it is no bug"),
            entry("does-not-compile", replace='"two"'),
            entry("aborts", replace="std::process::abort()"),
            entry("hangs", replace="number + 1", test="nothing_stays_nothing", hangs=True),
            entry("hangs-unexpectedly", replace="number + 1", test="nothing_stays_nothing"),
        ],
    )
    assert done.returncode == 1, done
    assert results(tree) == {
        "found": "found",
        "survives": "SURVIVES (expected: found)",
        "is-known-to-survive": "SURVIVES",
        "does-not-compile": "does not compile (expected: found)",
        "aborts": "neither passed nor failed (status -6) (expected: found)",
        "hangs": "found",
        "hangs-unexpectedly": "hangs (expected: found)",
    }
    assert "2 of 7 planted bugs were found" in done.stdout
    # The sources are as they were, and so is the copy.
    for root in (tree, tree / "target/planted/tree"):
        assert (root / "crates/toy/src/lib.rs").read_text() == SOURCE
    # A bug is selected by the beginning of its name.
    done = run(tree, "toy-fo")
    assert done.returncode == 0 and results(tree) == {"found": "found"}, done
    # A check that fails as it is says nothing.
    (tree / "crates/toy/src/lib.rs").write_text(SOURCE.replace(", 4)", ", 5)"))
    done = run(tree, "toy-found")
    assert done.returncode == 1 and results(tree)["found"].startswith("without the bug its check failed"), done


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (entry("x", find="number"), "occurs 2 times"),
        (entry("x", find="no such text"), "occurs 0 times"),
        (entry("x", replace="number * 2"), "changes nothing"),
        (entry("x", test="no_such_test"), "names no test that exists"),
        (entry("x", command="true"), "names no test that exists"),
        (entry("x", file="no/such/file.rs"), "No such file"),
        (entry("x", colour="red"), "unknown ['colour']"),
        (entry("x", name="other-x"), "must begin with `toy-`"),
        (entry("x") + entry("x"), "another bug has this name"),
        (entry("x"), "1 bugs are listed, and 60 are needed"),
    ],
)
def test_an_entry_that_does_not_apply_is_named(tree, wrong, said):
    done = run(tree, "--check", entries=[wrong])
    assert done.returncode == 1 and said in done.stderr, done


def test_the_entries_of_this_repository_apply(tmp_path):
    done = subprocess.run([sys.executable, RUN, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
