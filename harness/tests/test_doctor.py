"""`encke doctor` on the machine that runs the tests: what it says has to be so, whatever it is."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile

from support.program import BINARY, ENVIRONMENT, encke
from support.wait import PATIENCE


def doctor(*arguments, **options):
    said = encke("doctor", "--json", *arguments, **options)
    report = json.loads(said.stdout)
    assert said.returncode == (0 if report["well"] else 1), said
    return report


def finding(report, name):
    return next(finding for finding in report["findings"] if finding["name"] == name)


def limited(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def test_ten_connections_fit():
    report = doctor("--connections", 10)
    assert report["well"] and report["wanted"]["connections"] == 10
    names = [finding["name"] for finding in report["findings"]]
    assert len(names) == len(set(names))
    assert {"descriptors", "memory", "TCP memory", "accept queue", "control group"} <= set(names)


def test_descriptors_stop_what_they_stop():
    report = doctor("--connections", 100_000, preexec_fn=limited(5000))
    descriptors = finding(report, "descriptors")
    assert not report["well"] and descriptors["level"] == "stops"
    assert "5,000 for the process" in descriptors["found"]
    command = descriptors["remedies"][0]["advice"].split()
    assert command[:3] == ["encke", "serve", "--private-fds"]
    # What it recommends is enough by its own measure.
    report = doctor("-n", 100_000, *command[2:], preexec_fn=limited(5000))
    assert finding(report, "descriptors")["level"] == "well"


def test_text_names_what_stops():
    said = encke("doctor", "-n", "1000000", preexec_fn=limited(1000))
    assert said.returncode == 1
    assert "1,000,000 connections do not fit: descriptors" in said.stderr
    for word in ("found", "needed", "why", "do ", "well"):
        assert word in said.stdout


def test_drop_in_file_holds_settings_only():
    said = encke("doctor", "-n", "1000000000", "--sysctl-conf")
    assert said.returncode == 1
    lines = [line for line in said.stdout.splitlines() if line and not line.startswith("#")]
    assert any(line.startswith("fs.file-max = ") for line in lines)
    for line in lines:
        name, _, value = line.partition(" = ")
        assert value and pathlib.Path("/proc/sys", name.replace(".", "/")).exists()


def test_apply_needs_root():
    """As nobody: the settings stay, and the sentence says who may."""
    before = pathlib.Path("/proc/sys/fs/file-max").read_text()
    with tempfile.TemporaryDirectory() as directory:
        # Root's checkout may lie where nobody else may enter.
        os.chmod(directory, 0o755)
        said = subprocess.run(
            [shutil.copy(BINARY, directory), "doctor", "-n", "1000000000", "--apply"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=ENVIRONMENT,
            user=65534 if os.getuid() == 0 else None,
        )
    assert said.returncode == 1 and "root" in said.stderr and "--sysctl-conf" in said.stderr
    assert pathlib.Path("/proc/sys/fs/file-max").read_text() == before


def test_misuse():
    assert encke("doctor", "--apply", "--sysctl-conf").returncode == 2
    assert encke("doctor", "--connections", 0).returncode == 2
    assert encke("doctor", "--workers", 5000).returncode == 2
