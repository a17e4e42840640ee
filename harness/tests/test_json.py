"""`--json`: each command that prints a report has it, and prints one JSON object in each line."""

import json
import subprocess

import pytest

from support.program import BINARY, PROGRAMS, ROOT, encke
from support.wait import PATIENCE

# Commands that print no report, and why.
WITHOUT = {
    "serve": "it serves",
    "hello": "it serves",
    "completions": "it prints a script",
    "man": "it prints pages",
    # --output writes it to a file as JSON.
    "compare": "each of its commands prints a table",
}

# By command: arguments with which it ends at once, or the file that tests its report.
REPORTS = {
    "publish": ["rj", "hello"],
    "send": ["alice", "hello"],
    "listen": "test_commands",
    "subscribe": ["alice", "rj"],
    "unsubscribe": ["alice", "rj"],
    "sessions": ["alice"],
    "explain": ["rj", "alice"],
    "online": ["alice"],
    "ticket": ["alice"],
    "revoke": ["bob"],
    "top": ["--once", "--every", "200ms"],
    "flood": "test_flood",
    "drive": "test_drive",
    "record": "test_record",
    "plot": "test_plot",
    "plan": ["--users", "1000", "--rate", "1", "--friends", "3"],
    "doctor": ["--connections", "10"],
    "prove": "test_prove",
    "tcp": "test_proxy",
    "friends load": "test_graph",
    "friends generate": ["--users", "100", "--output", "{directory}/edges"],
    "graph check": ["--online"],
    "graph stats": ["--online"],
    "graph export": ["--online"],
    "graph compact": ["--data", "{directory}/data"],
    "graph backup": ["{directory}/copy", "--online"],
    "cluster status": "test_cluster_operations",
    "cluster drain": "test_cluster_operations",
    "cluster import": "test_cluster_import",
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """All commands of all programs that have no others below them, by their manual pages."""
    names = set()
    for program in PROGRAMS:
        pages = tmp_path_factory.mktemp("man")
        subprocess.run([BINARY.with_name(program), "man", "--output", pages], check=True, timeout=PATIENCE)
        names |= {path.stem.removeprefix(program).removeprefix("-").replace("-", " ") for path in pages.glob("*.1")}
    names = {"compare" if name.startswith("compare ") else name for name in names} - {""}
    return {name for name in names if not any(other.startswith(f"{name} ") for other in names)}


def test_each_command_that_prints_a_report_has_the_flag(commands):
    assert commands == {*REPORTS, *WITHOUT}
    for name, file in REPORTS.items():
        if isinstance(file, str):
            text = (ROOT / "harness" / "tests" / f"{file}.py").read_text()
            assert '"--json"' in text, f"{file} does not read the report of {name}"
    has = {name: "--json " in encke(*name.split(), "--help").stdout.replace("\n", " ") for name in commands}
    assert has == {name: name in REPORTS for name in commands}


def test_reports_are_objects_of_json(start, tmp_path):
    graph = ["--data", tmp_path / "data"]
    assert encke("friends", "load", "-", *graph, input="1 2\n").returncode == 0
    server = start("--tickets", "--presence", "--data", tmp_path / "served", env={"ENCKE_MEMORY": "false"})
    server.subscribe("fan", "rj")
    for name, arguments in REPORTS.items():
        if isinstance(arguments, str):
            continue
        arguments = [each.format(directory=tmp_path) for each in arguments]
        asks = "--control " in encke(*name.split(), "--help").stdout and "--data" not in arguments
        at = ["--control", server.control_url] if asks else []
        done = encke(*name.split(), *arguments, *at, "--json")
        # `doctor` may find something that is wrong with this machine.
        assert done.returncode == 0 or name == "doctor", (name, done.stderr)
        for line in done.stdout.splitlines():
            assert isinstance(json.loads(line), dict), (name, line)
        assert done.stdout, name
