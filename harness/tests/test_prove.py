"""`encke-lab prove`: the whole experiment, small, and its page in Chromium."""

import json
import os
import pathlib
import re
import resource
import signal

import pytest

from support.nats import NEWEST
from support.node import Browser
from support.program import BINARY, begin, encke
from support.wait import until

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
    steps = [latency[f"{name}_us"] for name in ("min", "p50", "p90", "p95", "p99", "p999", "p9999", "max")]
    assert steps == sorted(steps) and steps[0] > 0
    means = [latency[f"{name}_us"] for name in ("min", "p95_mean", "p99_mean", "mean", "max")]
    assert means == sorted(means) and latency["stdev_us"] > 0
    assert [past["users"] for past in report["history"]] == [10_000, 10_000, 1_000_000, 1_000_000]
    assert [past["bytes_a_user"][0] for past in report["history"]] == [45_000, 8_000, 25_000, 2_000]
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
        for figure in ("45,000", "8,000", "25,000 to 30,000", "2,000", "99.99 %"):
            assert figure in text, figure
        latency = report["driven"]["latency"]
        for share, name in (("95 %", "p95_"), ("99 %", "p99_"), ("all", "")):
            most = latency[f"{name}us" if name else "max_us"]
            mean, stdev = latency[f"{name}mean_us"], latency[f"{name}stdev_us"]
            shown = re.search(rf"{share}\s*([\d.]+) \(([\d.]+) ± ([\d.]+)\)", text).groups()
            assert [float(figure) for figure in shown] == pytest.approx([most / 1000, mean / 1000, stdev / 1000], abs=0.001)
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
    assert "The experiment was interrupted" in page.read_text()


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


def test_a_killed_server_loses_nothing(tmp_path):
    """kill -9 in the midst, with friends: every user comes back and gets each event once."""
    page = tmp_path / "prove.html"
    said = encke(
        *("prove", "--connections", 500, "--degree", 4, "--rate", 300, "--duration", "6s"),
        *("--restart", "--json", "-o", page),
        timeout=180,
    )
    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    assert report["failures"] == [] and "--restart" in report["command"]
    driven = report["driven"]
    assert driven["published"]["reconnects"] >= 1
    restart = driven["restart"]
    judgement = restart["judgement"]
    assert judgement["exact"] == judgement["checked"] > 400, judgement
    # Users that had an event which was not on disk yet are told so.
    assert judgement["checked"] + judgement["excused"] == 500, judgement
    assert judgement["missing"] == judgement["excess"] == 0, judgement
    assert restart["back"] == 500 and restart["recovery"]["returns"] >= 500
    assert 0 < restart["server_seconds"] <= restart["back_seconds"]
    assert sum(restart["resets"].values()) == judgement["excused"], restart
    assert "Killed and back" in page.read_text()


def test_a_cluster_of_which_a_node_and_a_server_are_killed_loses_nothing(tmp_path):
    """kill -9 of a node and of the leader of its log, at once: its users go on at the other nodes."""
    page = tmp_path / "cluster.html"
    said = encke(
        *("prove", "--connections", 600, "--rate", 200, "--duration", "8s"),
        *("--nodes", 3, "--json", "-o", page),
        timeout=110,
        env={**os.environ, "NATS_SERVER": str(NEWEST)},
    )
    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    assert report["failures"] == [] and "--nodes 3" in report["command"]
    driven = report["driven"]
    cluster = driven["cluster"]
    assert cluster["nodes"] == 3 and cluster["killed_node"] == "n1"
    assert cluster["killed_server"] in ("s1", "s2", "s3")
    # A third of the users were cut, all came back elsewhere, and the others noticed nothing.
    assert cluster["cut"] == 200 == cluster["closed"] == cluster["recovery"]["returns"]
    assert cluster["back"] == 600
    assert cluster["judgement"] == {"checked": 600, "exact": 600, "excused": 0, "missing": 0, "excess": 0}
    assert sum(cluster["resets"].values()) == 0
    assert cluster["out_of_order"] <= cluster["unanswered"]
    events = driven["published"]["events"]
    assert events["accepted"] + cluster["unanswered"] == events["due"] == 1600
    for what in ("back_seconds", "node_seconds", "server_seconds"):
        assert 0 < cluster[what] < 60, (what, cluster)
    assert 0 < cluster["silence_seconds"] < 20, cluster
    browser = Browser()
    try:
        browser.goto(page.as_uri())
        assert browser.complaints() == []
        assert "600 users on 3 nodes" in browser.text("h1")
        assert "nothing was lost" in browser.text(".good")
        assert "Longest time without a receipt" in browser.text("table")
        # Streams by node and receipts; latency; over time.
        assert browser.evaluate("document.querySelectorAll('figure svg').length") == 3
        labels = "[...document.querySelectorAll('figure')].map(figure => figure.textContent).join(' ')"
        for label in ("n1", "n2", "n3", "Users with a stream", "Events with a receipt"):
            assert label in browser.evaluate(labels), label
    finally:
        browser.close()


def test_a_cluster_needs_its_engine(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "NATS_SERVER"}
    said = encke(
        *("prove", "--connections", 10, "--nodes", 3, "-o", tmp_path / "x.html"),
        env={**environment, "PATH": str(tmp_path)},
    )
    assert said.returncode == 1 and "NATS_SERVER" in said.stderr, said.stderr
    assert encke("prove", "--nodes", 3, "--restart").returncode == 2
