"""The pipeline of a public forge, `.github`: what it names is there, and `contrib/release/notes`, by which it releases."""

import re
import shlex
import shutil
import subprocess
import tomllib

import pytest
import yaml

from support.program import ROOT

WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
STEPS = [
    (f"{name}: {title}", job, step)
    for name, workflow in WORKFLOWS.items()
    for title, job in workflow["jobs"].items()
    for step in job["steps"]
]
COMMANDS = [(place, shlex.split(line)) for place, _, step in STEPS for line in step.get("run", "").splitlines()]
MANIFEST = tomllib.loads((ROOT / "Cargo.toml").read_text())
VERSION = MANIFEST["workspace"]["package"]["version"]
# What the steps make.
MADE = r"target/|notes\.md$"


def test_each_target_of_make_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {word for _, words in COMMANDS if words[:1] == ["make"] for word in words[1:]}
    assert {"test", "nightly", "release"} <= asked <= targets, asked - targets


def test_each_path_exists():
    for place, words in COMMANDS:
        for word in words:
            path = word.lstrip(">")
            if re.fullmatch(r"[\w.*-]+(/[\w.*-]+)+", path) and not re.match(MADE, path):
                assert (ROOT / path).exists(), (place, word)
    for place, _, step in STEPS:
        for path in str(step.get("with", {}).get("workspaces", "")).split():
            assert (ROOT / path / "Cargo.toml").exists(), (place, path)


def test_each_crate_exists():
    members = {path.parent.name for pattern in MANIFEST["workspace"]["members"] for path in ROOT.glob(f"{pattern}/Cargo.toml")}
    named = {crate for _, words in COMMANDS for flag, crate in zip(words, words[1:]) if flag == "-p"}
    assert named and named <= members, named - members


def test_the_oldest_release_of_rust_is_tested():
    (job,) = (job for _, job, step in STEPS if step.get("run") == "make test")
    assert job["strategy"]["matrix"]["rust"] == [MANIFEST["workspace"]["package"]["rust-version"], "stable"]


def test_each_action_has_a_major_version_and_each_job_a_limit_of_time():
    for place, job, step in STEPS:
        assert re.search(r"@v\d+$", step.get("uses", "@v1")), (place, step)
        assert job["timeout-minutes"] < 360, place
    for name, workflow in WORKFLOWS.items():
        assert "permissions" in workflow, name


def test_updates_are_looked_for_wherever_dependencies_are_declared():
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    declared = {"cargo": "Cargo.lock", "npm": "package-lock.json", "pip": r"requirements*.txt pyproject.toml", "github-actions": ""}
    assert {update["package-ecosystem"] for update in updates} == set(declared)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    for update in updates:
        names = declared[update["package-ecosystem"]].split()
        directories = {ROOT / directory.lstrip("/") for directory in update.get("directories", [update.get("directory")])}
        found = {(ROOT / path).parent for path in listed for name in names if (ROOT / path).match(name)}
        assert not found ^ directories or not names, (update, found)


@pytest.fixture
def notes(tmp_path):
    """Runs the script in a tree with a change log."""
    (tmp_path / "contrib/release").mkdir(parents=True)
    shutil.copy(ROOT / "contrib/release/notes", tmp_path / "contrib/release")
    shutil.copy(ROOT / "Cargo.toml", tmp_path)

    def notes(tag, changelog):
        (tmp_path / "CHANGELOG.md").write_text(changelog)
        return subprocess.run([tmp_path / "contrib/release/notes", tag], capture_output=True, text=True)

    return notes


def test_a_release_has_the_notes_of_its_section(notes):
    done = notes(f"v{VERSION}", f"# Changelog\n\n## Unreleased\n\nsoon\n\n## {VERSION} - 2026-01-01\n\n### Server\n\n- now\n\n## 0.0.1\n\nonce\n")
    assert (done.returncode, done.stdout) == (0, "### Server\n\n- now\n"), done.stderr


@pytest.mark.parametrize(
    ("tag", "changelog", "why"),
    [
        ("v0.0.0", f"## {VERSION}\n\nnow\n", f"Cargo.toml has version {VERSION}"),
        (VERSION, f"## {VERSION}\n\nnow\n", f"Cargo.toml has version {VERSION}"),
        (f"v{VERSION}", "## Unreleased\n\nsoon\n", "no section"),
        (f"v{VERSION}", f"## {VERSION}.1\n\nlater\n", "no section"),
        (f"v{VERSION}", f"## {VERSION}\n\n## 0.0.1\n\nonce\n", "no section"),
    ],
    ids=["other-version", "without-v", "unreleased", "longer-version", "empty"],
)
def test_a_tag_of_another_version_or_without_a_section_is_refused(notes, tag, changelog, why):
    done = notes(tag, changelog)
    assert done.returncode == 1 and why in done.stderr and not done.stdout, done
