"""`encke prove`: the whole experiment, small, and its page in Chromium."""

import json
import pathlib
import resource
import signal

import pytest

from harness.node import Browser
from harness.program import BINARY, begin, encke
from harness.wait import until

SETTINGS = ["net/core/somaxconn", "net/ipv4/tcp_wmem", "net/ipv4/ip_local_reserved_ports"]


def settings():
    return [pathlib.Path("/proc/sys", name).read_text() for name in SETTINGS]


@pytest.fixture(scope="module")
def proof(tmp_path_factory):
    """10,000 users for ten seconds."""
    page = tmp_path_factory.mktemp("prove") / "prove.html"
    before = settings()
    said = encke(
        *("prove", "--connections", 10_000, "--duration", "10s", "--rate", 2000),
        *("--json", "-o", page),
        timeout=180,
    )
    assert said.returncode == 0, said.stderr
    assert settings() == before
    return json.loads(said.stdout), page


def test_figures_are_sane(proof):
    report, _ = proof
    assert report["failures"] == [] and not report["interrupted"]
    opened, driven = report["opened"], report["driven"]
    assert opened["connections"] == 10_000
    assert opened["connections_per_second"] > 500
    assert 10 < opened["server_bytes_each"] < 2000
    assert 1000 < opened["kernel_bytes_each_end"] < 20_000
    assert driven["published"]["events"]["accepted"] == 20_000
    assert driven["deliveries"] == driven["deliveries_awaited"] == 20_000
    assert driven["missing"] == driven["out_of_order"] == driven["closed"] == 0
    assert 0 < driven["processor_us_each"] < 1000
    latency = driven["latency"]
    assert latency["count"] == 20_000
    steps = [latency[name] for name in ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")]
    assert steps == sorted(steps) and steps[0] > 0
    assert report["history"]["bytes_a_user"] == [45_000, 8_000, 2_000]
    assert "--connections 10000" in report["command"] and str(BINARY) not in report["command"]


def test_page_stands_alone(proof):
    report, page = proof
    browser = Browser()
    try:
        requests = "performance.getEntriesByType('resource').length"
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            browser.goto(page.as_uri())
            assert browser.complaints() == []
            assert browser.evaluate(requests) == 0
            assert "10,000 users on one machine" in browser.text("h1")
        bytes_each = float(browser.text("#server-bytes").replace(",", ""))
        assert abs(bytes_each - report["opened"]["server_bytes_each"]) < 0.1
        text = browser.text("table")
        for figure in ("45,000", "8,000", "2,000", "16,666", "99.99 %"):
            assert figure in text, figure
        assert browser.evaluate("document.querySelectorAll('figure svg').length") == 2
        assert browser.evaluate("document.querySelectorAll('svg polyline').length") > 20
        for width in (1280, 390):
            browser.size(width, 800)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
    finally:
        browser.close()


def test_graph(tmp_path):
    page = tmp_path / "graph.html"
    said = encke(
        *("prove", "--connections", 500, "--duration", "2s", "--rate", 100, "--degree", 3),
        *("--json", "-o", page),
        timeout=120,
    )
    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    assert report["graph"]["friendships"] == 500 * 3 - 3 * 4 // 2
    # Everyone has six friends or so, and himself.
    assert 4 < report["driven"]["deliveries"] / 200 < 12


def test_interrupted_early_it_reports(tmp_path):
    page = tmp_path / "early.html"
    command = ["prove", "--connections", "100", "--rate", "10", "--json", "-o", page]
    with begin(*command) as process:
        line = until(lambda: "users connected" in (said := process.stderr.readline()) and said, "open")
        assert "100 users connected" in line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert report["interrupted"] and report["opened"]["connections"] == 100
    assert "It was interrupted" in page.read_text()


def test_refusals(tmp_path):
    missing = tmp_path / "none" / "prove.html"
    said = encke("prove", "-o", missing)
    assert said.returncode == 1 and "cannot be written" in said.stderr
    assert encke("prove", "--rate", 0).returncode == 2
    assert encke("prove", "--connections", 1).returncode == 2


def test_more_connections_than_files_are_refused(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))

    said = encke("prove", "-c", 1_000_000, "-o", tmp_path / "x.html", preexec_fn=limit)
    assert said.returncode == 1 and "ulimit -Hn" in said.stderr
