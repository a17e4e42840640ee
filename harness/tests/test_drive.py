"""`encke-lab drive` against the real server, and against servers that are not what they should be."""

import collections
import http.server
import json
import re
import signal
import socket
import threading
import time

import pytest

from support.http import Ndjson
from support.program import begin, encke
from support.wait import PATIENCE, until


def drive(server, *arguments, code=0):
    """Runs it to its end; the report and what was said besides."""
    at = ["--control", server.control_url] if server else []
    said = encke("drive", *at, *arguments, "--json", timeout=60)
    assert said.returncode == code, (said.returncode, said.stderr)
    return json.loads(said.stdout), said.stderr


def listen(server, *ids):
    """A stream for each id."""
    streams = {each: Ndjson(server, str(each)) for each in ids}
    until(lambda: all(server.sessions(each) for each in ids), "online")
    return streams


def adds_up(report):
    events = report["events"]
    parts = [events[each] for each in ("accepted", "refused", "lost", "unsent")]
    assert events["due"] == sum(parts), events
    assert events["sent"] == events["due"] - events["unsent"], events


@pytest.mark.parametrize(
    "way", [[], ["--connections", "3"], ["--per-request"]], ids=["batch", "lanes", "requests"]
)
def test_what_is_driven_is_what_clients_get(start, way):
    server = start()
    # 6 hears of 1 besides itself, and nobody is 5.
    server.subscribe(6, 1)
    streams = listen(server, 1, 2, 3, 4, 6)
    before = time.time_ns()
    report, _ = drive(server, "--rate", 1000, "--count", 500, "--max-id", 5, *way)
    after = time.time_ns()
    assert report["events"]["accepted"] == report["latency"]["count"] == 500
    adds_up(report)

    # How many events each id had is found by listening: the last is marked.
    for each in streams:
        server.send(each, "last")
    heard = {}
    for each, stream in streams.items():
        heard[each] = []
        while (event := stream.event())["data"] != "last":
            heard[each].append(event)
    about = collections.defaultdict(list)
    for each, events in heard.items():
        for event in events:
            about[each, event["subject"]].append(event["data"])
    assert set(about) == {(1, 1), (2, 2), (3, 3), (4, 4), (6, 1)}
    assert about[6, 1] == about[1, 1]
    stamps = []
    for data in about.values():
        assert [event["n"] for event in data] == list(range(1, len(data) + 1))
        stamps += [event["t"] for event in data]
    assert before < min(stamps) and max(stamps) < after
    # They were due a millisecond apart, whenever they left.
    first = min(stamps)
    assert all((stamp - first) % 1_000_000 == 0 for stamp in stamps)

    deliveries = sum(len(events) for events in heard.values())
    receipts = report["receipts"]
    assert receipts["written"] + receipts["queued"] == receipts["online"] == deliveries
    assert receipts["shed"] == 0
    assert receipts["subscribers"] == 500 + len(about[1, 1])


def test_the_rate_is_kept_and_told_each_second(start):
    report, said = drive(start(), "--rate", 2000, "--duration", "1500ms", "--max-id", 100)
    assert report["events"]["due"] == report["events"]["accepted"] == 3000
    assert report["rate"]["asked"] == 2000
    assert report["seconds"] >= 1.5 and report["rate"]["reached"] <= 2000
    # One line, unless the machine is so busy that there are more.
    line = next(line for line in said.splitlines() if "accepted" in line)
    assert re.match(r" *\d+ s: [\d,]+/s accepted, ", line)
    # An event that leaves when it is due is not late.
    assert 0 < report["latency"]["min_us"] and 0 <= report["rate"]["lateness"]["min_us"]
    for times in (report["latency"], report["rate"]["lateness"]):
        assert times["min_us"] <= times["p50_us"] <= times["p95_us"] <= times["p99_us"] <= times["max_us"]
        assert times["min_us"] <= times["p95_mean_us"] <= times["p99_mean_us"] <= times["mean_us"] <= times["max_us"]
        assert 0 < times["stdev_us"] < times["max_us"]
    assert 0 < report["cpu_seconds"] < report["seconds"]


def test_senders_are_a_rate(start):
    flags = ["--senders", 100, "--interval", "60ms", "--count", 200, "--max-id", 10]
    report, _ = drive(start(), *flags)
    assert report["rate"]["asked"] == pytest.approx(1666.667, abs=0.001)
    assert report["events"]["accepted"] == 200
    assert report["seconds"] >= 0.12


def test_the_same_seed_draws_the_same_targets(start, tmp_path):
    server = start()
    graph = tmp_path / "star.txt"
    graph.write_text("2 1\n3 1\n4 1\n")
    streams = listen(server, 1, 2, 3, 4)
    flags = ["--rate", 20_000, "--count", 600, "--targets", "degree", "--graph", graph]
    counts = []
    for seed in (7, 7, 8):
        drive(server, *flags, "--seed", seed)
        count = collections.Counter()
        for each, stream in streams.items():
            server.send(each, "last")
            while stream.event()["data"] != "last":
                count[each] += 1
        counts.append(count)
    assert counts[0] == counts[1] != counts[2]
    # Half of the six ends are the first id's.
    assert 250 < counts[0][1] < 350 and min(counts[0].values()) > 60


def test_payloads_are_as_asked(start):
    server = start()
    with Ndjson(server, "1") as stream:
        until(lambda: server.sessions(1), "online")
        once = ["--rate", 10, "--count", 1, "--max-id", 1]
        drive(server, *once, "--size", 200)
        event = stream.event()
        assert len(json.dumps(event["data"], separators=(",", ":"))) == 200
        drive(server, *once, "--template", '{"n": {n}, "of": {"user": {id}}}')
        assert stream.event()["data"] == {"n": 1, "of": {"user": 1}}
        drive(server, *once, "--template", 'say "{n}"')
        assert stream.event()["data"] == 'say "1"'
        drive(server, *once, "--template", 'say "{n}"', "--per-request")
        assert stream.event()["data"] == 'say "1"'


class Other:
    """An HTTP server of another make, which answers as it is told."""

    def __init__(self, answer, version="HTTP/1.1"):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = version

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                asked.append((self.command, self.path, body))
                status, said = answer(len(asked))
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_PUT = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


# One server of version 1.0 ends each connection with its answer.
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_any_server_can_be_driven(version):
    with Other(lambda _: (200, b"OK"), version) as other:
        url = other.url + "/pub?id={id}&n={n}"
        report, _ = drive(None, "--url", url, "--rate", 400, "--count", 100, "--max-id", 3)
        assert report["events"]["accepted"] == 100, report
        numbers = collections.defaultdict(list)
        for method, path, body in other.asked:
            assert method == "POST"
            words = dict(pair.split("=") for pair in path.removeprefix("/pub?").split("&"))
            assert json.loads(body)["n"] == int(words["n"])
            numbers[words["id"]].append(int(words["n"]))
        assert set(numbers) == {"1", "2", "3"}
        for each in numbers.values():
            assert each == list(range(1, len(each) + 1))


def test_a_method_without_a_body():
    with Other(lambda _: (204, b"")) as other:
        flags = ["--rate", 1000, "--count", 10, "--max-id", 1, "--method", "get"]
        report, _ = drive(None, "--url", other.url + "/{id}/{n}", *flags)
        assert report["events"]["accepted"] == 10
        assert other.asked == [("GET", f"/1/{number}", b"") for number in range(1, 11)]


def test_what_waits_for_a_stuck_server_counts_from_when_it_was_due():
    """No omission is coordinated: events due while the server stood still were all late."""

    def answer(number):
        if number == 1:
            time.sleep(0.6)
        return 200, b""

    with Other(answer) as other:
        flags = ["--rate", 100, "--count", 50, "--max-id", 9, "--connections", 1]
        report, _ = drive(None, "--url", other.url, *flags)
    assert report["events"]["accepted"] == 50
    assert report["latency"]["max_us"] >= 600_000
    # The event in the middle was due at 0.25 s and left at 0.6 s.
    assert report["latency"]["p50_us"] >= 300_000
    assert report["rate"]["late"] >= 48
    assert report["rate"]["lateness"]["max_us"] >= 550_000


def test_a_server_that_is_not_there(start):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d" % closed.getsockname()[1]
        for way in [["--control", url], ["--control", url, "--per-request"], ["--url", url]]:
            report, said = drive(None, *way, "--rate", 100, "--count", 20, code=1)
            assert f"no connection to {url}" in said and "nothing listens there" in said
            assert "start a server" in said
            assert report["events"]["accepted"] == report["events"]["sent"] == 0
            adds_up(report)


@pytest.mark.parametrize("way", [[], ["--per-request"]], ids=["batch", "requests"])
def test_a_token_is_asked_for(start, way):
    server = start("--control-token", "secret-0123456789", token="secret-0123456789")
    once = ["--rate", 10, "--count", 1, *way]
    report, said = drive(server, *once, code=1)
    assert "status 401" in said and "pass --control-token" in said
    adds_up(report)
    report, _ = drive(server, *once, "--control-token", "secret-0123456789")
    assert report["events"]["accepted"] == 1


def test_refused_events_are_told_once(start):
    server = start("--event-bytes", "1KiB")
    flags = ["--rate", 1000, "--count", 30, "--size", 2000, "--max-id", 5]
    report, said = drive(server, *flags, code=1)
    assert report["events"]["refused"] == 30
    (trouble,) = report["troubles"]
    assert trouble["count"] == 30 and "30 events were refused in the batch" in said
    assert said.count("refused in the batch") == 1
    assert "of 30 events 30 refused" in said
    report, said = drive(server, *flags, "--per-request", code=1)
    assert report["events"]["refused"] == 30 and "status 413" in said and "--event-bytes" in said


def test_statuses_are_told_with_the_servers_words():
    def answer(number):
        return (503, b"too busy\nfor this") if number % 2 else (200, b"")

    with Other(answer) as other:
        flags = ["--rate", 1000, "--count", 40, "--connections", 1]
        report, said = drive(None, "--url", other.url, *flags, code=1)
    assert (report["events"]["accepted"], report["events"]["refused"]) == (20, 20)
    assert "20 events were refused with status 503 (first: too busy)" in said
    assert "lower --rate" in said
    adds_up(report)


class Driving:
    """A drive that goes on."""

    def __init__(self, *arguments):
        self.process = begin("drive", *arguments, "--json")

    def __enter__(self):
        # A line each second; the first may have nothing to tell yet.
        while (line := self.process.stderr.readline().lstrip()).partition(" s: ")[2].startswith("0/s"):
            pass
        assert "accepted" in line
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self):
        out, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, json.loads(out), said


@pytest.mark.parametrize("way", [[], ["--per-request"]], ids=["batch", "requests"])
def test_a_server_that_dies(start, way):
    server = start()
    flags = ["--rate", 5000, "--duration", "60s", "--max-id", 50, *way]
    with Driving("--control", server.control_url, *flags) as driving:
        server.kill()
        code, report, said = driving.end()
    assert code == 1
    assert report["events"]["accepted"] > 0 and report["seconds"] < 30
    assert "ended the connection" in said or "no connection to" in said
    assert not report["interrupted"]
    adds_up(report)


@pytest.mark.parametrize("way", [[], ["--per-request"]], ids=["batch", "requests"])
def test_an_interrupt_prints_the_report_so_far(start, way):
    server = start()
    flags = ["--rate", 2000, "--duration", "1h", "--max-id", 50, *way]
    with Driving("--control", server.control_url, *flags) as driving:
        driving.process.send_signal(signal.SIGINT)
        code, report, said = driving.end()
    assert code == 0, said
    assert report["interrupted"] and report["events"]["accepted"] > 0
    assert report["events"]["lost"] == report["events"]["refused"] == 0
    assert report["seconds"] < 30
    adds_up(report)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "--rate"),
        (["--rate", "0"], "from 0.001"),
        (["--senders", "5"], "--interval"),
        (["--rate", "5", "--duration", "5"], "500ms"),
        (["--rate", "5", "--count", "0"], "no event to publish"),
        (["--rate", "5", "--size", "10"], "from 49"),
        (["--rate", "5", "--targets", "degree"], "--graph"),
        (["--rate", "5", "--max-id", "0"], "from 1 to"),
        (["--rate", "5", "--connections", "0"], "from 1 to"),
        (["--rate", "5", "--url", "ftp://localhost/"], "http://"),
        (["--rate", "5", "--url", "http://localhost/", "--per-request"], "--per-request"),
        (["--rate", "5", "--method", "GET"], "--url"),
    ],
)
def test_misuse_is_said(arguments, said):
    ended = encke("drive", *arguments)
    assert ended.returncode == 2 and said in ended.stderr, ended.stderr
    assert ended.stdout == ""


def test_a_graph_that_is_none_is_said(tmp_path):
    flags = ["--rate", 5, "--targets", "degree", "--graph"]
    ended = encke("drive", *flags, tmp_path / "none")
    assert ended.returncode == 1 and "opening" in ended.stderr
    graph = tmp_path / "graph"
    graph.write_text("1 2\n1,2\n")
    ended = encke("drive", *flags, graph)
    assert ended.returncode == 1 and "line 2 of" in ended.stderr


def test_the_report_for_people(start):
    flags = ["--control", start().control_url, "--rate", 100, "--count", 10, "--max-id", 5]
    said = encke("drive", *flags)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0].startswith("drove http://127.0.0.1:")
    assert "10 due, 10 sent, 10 accepted, 0 refused, 0 lost, 0 unsent" in lines[1]
    assert "asked 100.0/s" in lines[2] and lines[4].startswith("latency   min ")
    spread = r"mean      [\d.]+ ms \(standard deviation [\d.]+ ms\); of the shortest 95 %: [\d.]+ ms \([\d.]+ ms\), of 99 %: "
    assert re.match(spread, lines[5]), lines[5]
