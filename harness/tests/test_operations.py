"""docs/OPERATIONS.md and contrib/: each recipe and each file is used as an operator would use it."""

import concurrent.futures
import contextlib
import grp
import json
import os
import pathlib
import pwd
import re
import socket
import ssl
import subprocess

import httpx
import pytest
from websockets.sync.client import connect

from support.http import PLAIN, Sse
from support.nats import Nats
from support.program import BINARY, ENVIRONMENT, ROOT, Program, begin, encke, installed
from support.receiver import new_secret, write_secrets
from support.server import Server
from support.tls import Authority, TlsServer
from support.wait import PATIENCE, until
from test_websocket import event

CONTRIB = ROOT / "contrib"
GUIDE = (ROOT / "docs" / "OPERATIONS.md").read_text()
NAME = "push.example.org"


def replaced(text, of):
    """A file of contrib with what differs on this machine; each thing must be there."""
    for old, new in of.items():
        assert old in text, f"{old!r} is not in the file any more"
        text = text.replace(old, str(new))
    return text


@pytest.fixture
def certificate(tmp_path):
    return Authority(tmp_path / "authority").issue("localhost", NAME)


@pytest.fixture
def trusting(tmp_path, certificate):
    return ssl.create_default_context(cafile=tmp_path / "authority" / "authority.pem")


# The configuration and the service


def configured(tmp_path):
    """contrib/encke.toml with the paths of a test."""
    for name in ("control-token", "jwt-secret"):
        (tmp_path / name).write_text("0123456789-0123456789-0123456789-0123456789\n")
        (tmp_path / name).chmod(0o600)
    paths = {"/etc/encke": tmp_path, "/var/lib/encke": tmp_path / "data"}
    (tmp_path / "encke.toml").write_text(replaced((CONTRIB / "encke.toml").read_text(), of=paths))
    return tmp_path / "encke.toml"


def test_the_configuration_is_valid(tmp_path):
    env = {name: value for name, value in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
    checked = encke("serve", "--config", configured(tmp_path), "--check-config", env=env)
    assert checked.returncode == 0, checked.stderr


UNIT = (CONTRIB / "systemd" / "encke.service").read_text()


@pytest.fixture
def analyze(tmp_path):
    """Runs systemd-analyze on the unit."""
    path = tmp_path / "encke.service"
    path.write_text(replaced(UNIT, of={"/usr/bin/encke": BINARY}))

    def run(*arguments, unit=True):
        command = [installed("systemd-analyze"), *arguments, *([path] if unit else [])]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    return run


def test_systemd_takes_the_unit_and_finds_it_hardened(analyze):
    verified = analyze("verify", "--man=no")
    assert verified.returncode == 0 and str(BINARY) not in verified.stderr, verified.stderr
    rated = analyze("security", "--offline=yes", "--threshold=20")
    assert rated.returncode == 0, rated.stdout[-300:]


def allowed_calls(analyze, name):
    """The system calls of a set of systemd's, and of the sets in it."""
    listed = analyze("syscall-filter", name, unit=False).stdout.splitlines()[1:]
    for entry in map(str.strip, listed):
        if entry.startswith("@"):
            yield from allowed_calls(analyze, entry)
        elif entry and not entry.startswith("#"):
            yield entry


def test_the_unit_allows_the_system_calls_that_the_server_makes(analyze, tmp_path):
    allow, deny = re.findall(r"^SystemCallFilter=(.*)$", UNIT, re.MULTILINE)
    allowed = set(allowed_calls(analyze, allow))
    denied = {call for name in deny.removeprefix("~").split() for call in allowed_calls(analyze, name)}
    trace, ports = tmp_path / "trace", tmp_path / "ports"
    env = {name: value for name, value in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
    server = subprocess.Popen(
        [installed("strace"), "-f", "-qq", "-o", trace, BINARY, "serve", "--config", configured(tmp_path), "--listen",
         "127.0.0.1:0", "--control", "127.0.0.1:0", "--private-fds", "--ports-file", ports, "--drain-timeout", "1s"],
        env=env, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        said = until(lambda: ports.exists() and ports.read_text() and json.loads(ports.read_text()), "it serves")
        flags = ["--control", f"http://{said['control']}", "--token-file", tmp_path / "control-token"]
        for command in (["subscribe", "alice", "rj"], ["publish", "rj", "hello"]):
            done = encke(*command, *flags)
            assert done.returncode == 0, done.stderr
        os.kill(said["pid"], 1)
        os.kill(said["pid"], 15)
        server.wait(PATIENCE)
    finally:
        server.kill()
        server.wait()
    made = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", trace.read_text(), re.MULTILINE))
    assert {"epoll_wait", "accept4", "unshare", "fdatasync"} <= made | {"epoll_pwait"}, made
    assert made <= allowed - denied, made - (allowed - denied)


# Proxies


@contextlib.contextmanager
def running(command, port, **options):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)

    def listens():
        assert process.poll() is None, process.stderr.read()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens, f"{command[0]} listens")
        yield
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def nginx(server, port, certificate, directory):
    text = replaced(
        (CONTRIB / "proxies" / "nginx.conf").read_text(),
        of={
            "127.0.0.1:8000": "%s:%d" % server.public,
            "listen 443": f"listen 127.0.0.1:{port}",
            f"/etc/ssl/{NAME}.pem": certificate.chain,
            f"/etc/ssl/{NAME}.key": certificate.key,
        },
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in kinds)
    (directory / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log; events {{}}\n"
        f"http {{ access_log off; {paths}\n{text} }}"
    )
    return [installed("nginx"), "-c", directory / "nginx.conf", "-p", directory]


def haproxy(server, port, certificate, directory):
    (directory / "both.pem").write_text(certificate.chain.read_text() + certificate.key.read_text())
    more = {"127.0.0.1:8000": "%s:%d" % server.public, f"/etc/ssl/{NAME}.pem": directory / "both.pem"}
    return _haproxy("haproxy-http.cfg", server, port, directory, more)


def haproxy_tcp(server, port, certificate, directory):
    return _haproxy("haproxy.cfg", server, port, directory, {"127.0.0.1:8443": "%s:%d" % server.secure})


def _haproxy(file, server, port, directory, more):
    of = {"port 8001": "port %d" % server.control[1], "bind :443": f"bind 127.0.0.1:{port}", **more}
    (directory / file).write_text(replaced((CONTRIB / "proxies" / file).read_text(), of=of))
    return [installed("haproxy"), "-db", "-q", "-f", directory / file]


def caddy(server, port, certificate, directory):
    text = replaced(
        (CONTRIB / "proxies" / "Caddyfile").read_text(),
        of={
            "127.0.0.1:8000": "%s:%d" % server.public,
            f"{NAME} {{": f"https://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {certificate.chain} {certificate.key}",
        },
    )
    (directory / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + text)
    return [installed("caddy"), "run", "--adapter", "caddyfile", "--config", directory / "Caddyfile"]


@pytest.mark.parametrize("proxy", [nginx, haproxy, haproxy_tcp, caddy], ids=lambda proxy: proxy.__name__)
def test_all_transports_pass_through_each_proxy(port, tmp_path, certificate, trusting, name, proxy):
    # With a proxy that names no client, the second stream of an address would be one too many.
    flags = ["--trusted-proxy", "127.0.0.1", "--max-connections-per-address", "3", "--host", NAME]
    flags += ["--heartbeat", "1s"]
    flags += ["--proxy-protocol"] if proxy is haproxy_tcp else []
    server = TlsServer(*flags, certificates=[certificate], token="0123456789-token")
    try:
        listen = port().number
        env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        with running(proxy(server, listen, certificate, tmp_path), listen, env=env):
            id, base = name(), f"https://localhost:{listen}"
            with httpx.Client(verify=trusting, timeout=PATIENCE, trust_env=False) as client:
                for path, framed in (("events", "data: %s"), ("stream", '"data":"%s"')):
                    with client.stream("GET", f"{base}/{path}/{id}") as stream:
                        lines = (line for line in stream.iter_lines() if "data" in line)
                        for number in range(3):
                            # The next one is published when this one has passed: none may wait for another.
                            server.publish(id, f"{number}")
                            assert framed % number in next(lines)
                    # HAProxy passes the end of a client on when there is something to send.
                    until(lambda: not server.sessions(id), "logged out")
                check_wire_of_2008(server, client, base, id)
                check_polls(server, client, base, id)
            url = f"wss://localhost:{listen}/ws/{id}"
            with connect(url, ssl=trusting, proxy=None, open_timeout=PATIENCE) as client:
                server.publish(id, "to a socket")
                assert event(client)["data"] == "to a socket"
            refused = encke("publish", id, "no", "--control", base, "--ca", tmp_path / "authority" / "authority.pem")
            assert refused.returncode != 0
            until(lambda: not server.sessions(id), "logged out")
    finally:
        server.stop()


def check_wire_of_2008(server, client, base, id):
    """A proxy may cut the chunks anew, but adds and takes no byte, and keeps the field that guards browsers."""
    with client.stream("GET", f"{base}/test/{id}") as stream:
        assert stream.headers["content-security-policy"] == "sandbox"
        pieces = stream.iter_bytes()
        read = expected = b""
        while not read.endswith(b"\n"):
            read += next(pieces)
        assert read == f"Encke welcomes you! Your Id: {id}\n".encode()
        read = b""
        for payload in (b"one", b"\0\xff", b"three\n"):
            server.publish(id, payload, content_type="application/octet-stream")
            expected += payload
            while len(read) < len(expected):
                read += next(pieces)
            assert read == expected
    # It has no heartbeat, so there is something to send only when something is published.
    until(lambda: server.publish(id, "anybody?") and not server.sessions(id), "logged out")


def check_polls(server, client, base, id):
    """A poll that waits is answered by the next event, and the next poll goes on behind it."""
    answer = client.get(f"{base}/poll/{id}?wait=0")
    assert answer.status_code in (200, 204), answer.text
    cursor = answer.headers["encke-cursor"]
    for number in range(3):
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(client.get, f"{base}/poll/{id}", params={"wait": 25, "cursor": cursor})
            until(lambda: server.stats()["online"] or waiting.done(), "it waits")
            server.publish(id, f"polled {number}")
            answer = waiting.result(PATIENCE)
        assert answer.status_code == 200, answer.text
        assert [said["data"] for said in answer.json()] == [f"polled {number}"]
        cursor = answer.headers["encke-cursor"]
    answer = client.get(f"{base}/poll/{id}", params={"wait": 0, "cursor": cursor})
    assert (answer.status_code, answer.content) == (204, b"")


# Backup, upgrade


def recipe(heading):
    section = re.search(rf"## {heading}\n(.*?)\n## ", GUIDE, re.DOTALL)[1]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_a_backup_is_restored(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "encke").symlink_to(BINARY)
    server = Server("--data", tmp_path / "data", env={"ENCKE_MEMORY": "false"})
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    env = {**ENVIRONMENT, "PATH": path, "ENCKE_CONTROL": server.control_url, "ENCKE_MEMORY": "false"}
    backup, restore = recipe("Backup and restore")
    try:
        server.subscribe("alice", "rj")
        subprocess.run(["bash", "-ec", backup], cwd=tmp_path, env=env, check=True, timeout=PATIENCE)
        server.subscribe("bob", "rj")
    finally:
        server.stop()
    commands, _, serve = restore.rstrip().rpartition("\n")
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, env=env, check=True, timeout=PATIENCE)
    assert serve == "encke serve --data restored"
    restored = Server("--data", tmp_path / "restored", env={"ENCKE_MEMORY": "false"})
    try:
        assert restored.publish("rj", "hello")["subscribers"] == 2
    finally:
        restored.stop()


def test_the_plan_says_what_the_guide_says():
    (command,) = recipe("Capacity")
    planned = encke(*command.split()[1:], "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    said = re.search(r"about ([\d.]+) GiB.*and (\w+) cores", GUIDE, re.DOTALL)
    assert (f"{plan['memory_bytes'] / 2**30:.1f}", plan["cores"]) == (said[1], 8)
    assert said[2] == "eight"


def test_the_settings_of_the_plan_are_those_of_the_doctor_and_exist():
    """The plan for so many users, and what the doctor asks of this machine for as many connections."""
    users = 10**9
    planned = json.loads(encke("plan", "--users", users, "--friends", 0, "--rate", 0, "--json").stdout)
    settings = {setting["name"]: setting["value"] for setting in planned["settings"]}
    text = encke("plan", "--users", users, "--friends", 0, "--rate", 0).stdout
    for name, value in settings.items():
        assert re.search(rf"^  {re.escape(name)} +{re.escape(value)}$", text, re.MULTILINE), text
        # Where no firewall tracks connections, the kernel has no table for them.
        assert "nf_conntrack" in name or (pathlib.Path("/proc/sys") / name.replace(".", "/")).exists(), name
    workers = planned["cores"]
    asked = json.loads(encke("doctor", "-n", users, "--workers", f"{min(workers, 1023):.0f}", "--json").stdout)
    prescribed = {
        remedy["setting"]["name"]: remedy["setting"]["value"]
        for finding in asked["findings"]
        for remedy in finding.get("remedies", [])
        if "setting" in remedy
    }
    # What depends on this machine: files that are open, its memory, connections that its firewall tracks.
    for name in ("fs.file-max", "vm.min_free_kbytes", "net.netfilter.nf_conntrack_max"):
        prescribed.pop(name, None)
    shared = prescribed.keys() & settings.keys()
    assert {"fs.nr_open", "net.ipv4.tcp_max_orphans", "net.ipv4.tcp_mem"} <= shared, prescribed
    assert {name: settings[name] for name in shared} == {name: prescribed[name] for name in shared}
    assert planned["descriptors"] == int(settings["fs.nr_open"])


def test_an_upgrade_loses_nothing(port, tmp_path):
    public, control = port(), port()

    def serve():
        flags = ["--history-dir", tmp_path / "history", "--drain-spread", "100ms", "--drain-timeout", "2s"]
        return Server(*flags, public=public.address, control=control.address)

    old = serve()
    listener = begin("listen", "rj", "--url", old.public_url, "--count", "40")
    try:
        until(lambda: old.stats()["online"] == 1, "the listener")
        for number in range(20):
            old.publish("rj", f"{number}")
        old.stop()
        new = serve()
        try:
            for number in range(20, 40):
                new.publish("rj", f"{number}")
            out, err = listener.communicate(timeout=PATIENCE)
            assert out.split() == [str(number) for number in range(40)], (out, err)
        finally:
            new.stop()
    finally:
        listener.kill()
        listener.communicate()


# Monitoring


@pytest.fixture(scope="module")
def hooked(tmp_path_factory):
    """Flags of presence, and of a webhook to nowhere."""
    secret = write_secrets(tmp_path_factory.mktemp("webhook") / "secret", new_secret())
    return ["--presence", "--webhook-url", "http://127.0.0.1:9/", "--webhook-secret-file", secret]


@pytest.fixture(scope="module")
def families(hooked, tmp_path_factory):
    """Names of all families of metrics of a server that has everything but a cluster, as OpenMetrics names them."""
    directory = tmp_path_factory.mktemp("metrics")
    certificate = Authority(directory / "authority").issue("localhost")
    # Nobody is at port 9: its failures are counted.
    flags = ["--data", directory / "data", "--history-dir", directory / "history", "--access-log", directory / "access.log"]
    flags += ["--tls-listen", "127.0.0.1:0", "--tls-cert", certificate.chain, "--tls-key", certificate.key]
    server = Server(*flags, "--jwks-url", "https://127.0.0.1:9/keys", *hooked, env={"ENCKE_MEMORY": "false"})
    try:
        text = server.api.get("/metrics").text
    finally:
        server.stop()
    return set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))


def family(sample):
    """The family of a sample of OpenMetrics."""
    return re.sub(r"_(total|bucket|sum|count|info)$", "", sample)


def of_chapter(file, pattern):
    """Families of metrics that a chapter of the documents names, which other tests compare with what there is."""
    return {family(name) for name in re.findall(rf"`({pattern})`", (ROOT / "docs" / file).read_text())}


@pytest.fixture(scope="module")
def metrics(families):
    """All families: of the server, and what only a node of a cluster and fetched keys have."""
    of_nodes = of_chapter("CONTROL.md", r"encke_(?:log|cluster)_\w+")
    of_keys = of_chapter("IDENTITY.md", r"encke_jwks_\w+")
    assert len(of_nodes) > 20 and len(of_keys) == 4
    return families | of_nodes | of_keys


def promtool(*arguments, **options):
    command = [installed("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", ["tcp", "hello"])
def test_promtool_finds_nothing_in_the_metrics_of_other_programs(tmp_path, port, program):
    more = ["--to", port().address] if program == "tcp" else []
    running = Program(program, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", *more, cwd=tmp_path)
    try:
        with httpx.Client(base_url="http://%s:%d" % running.control, **PLAIN) as client:
            check_metrics(client)
    finally:
        running.stop()


@pytest.fixture
def measured(tmp_path, hooked, certificate):
    """Starts a server with one of the things that have metrics of their own, and names one of these."""
    with contextlib.ExitStack() as stack:

        def measured(what):
            flags, env, more = hooked, {}, {}
            match what:
                case "memory":
                    named = "encke_presence_online_ids"
                case "disk":
                    flags = [*hooked, "--data", tmp_path / "data", "--history-dir", tmp_path / "history"]
                    env, named = {"ENCKE_MEMORY": "false"}, "encke_store_commits_total"
                case "TLS":
                    more, named = {"certificates": [certificate]}, "encke_tls_handshakes_total"
                case "cluster":
                    engine = Nats(1)
                    stack.callback(engine.close)
                    flags = [*hooked, "--cluster", engine.url, "--cluster-name", "prom", "--node", "n1"]
                    flags, named = [*flags, "--log-bytes", "64MiB", "--log-replicas", "1"], "encke_log_ready"
            server = (TlsServer if more else Server)(*flags, env=env, **more)
            stack.callback(server.stop)
            return server, named

        yield measured


@pytest.mark.parametrize("what", ["memory", "disk", "TLS", "cluster"])
def test_promtool_finds_nothing_in_the_metrics(measured, what):
    server, named = measured(what)
    # Metrics with labels and histograms have samples only when something has happened.
    server.subscribe("alice", "rj")
    with Sse(server, "alice") as stream:
        server.publish("rj", "hello")
        assert stream.data() == "hello"
        text = check_metrics(server.api)
    assert re.search(rf"^{named}\b", text, re.MULTILINE), f"{named} is not there"


def check_metrics(client):
    """Lets promtool look at the metrics. Returns them."""
    answer = client.get("/metrics", headers={"Accept": "text/plain"})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    promtool("check", "metrics", input=answer.text)
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
    text = client.get("/metrics", headers={"Accept": prometheus})
    assert text.headers["content-type"].startswith("application/openmetrics-text")
    return answer.text


def test_alerts_fire_on_a_sick_server_and_not_on_a_healthy_one():
    promtool("check", "rules", "alerts.yml", cwd=CONTRIB / "prometheus")
    promtool("test", "rules", "alerts_test.yml", cwd=CONTRIB / "prometheus")


def test_alerts_are_about_metrics_that_exist_and_are_in_the_guide(metrics):
    text = (CONTRIB / "prometheus" / "alerts.yml").read_text()
    used = {family(name) for name in re.findall(r"\bencke_\w+", text)}
    assert len(used) > 10 and used <= metrics, used - metrics
    alerts = re.findall(r"- alert: (\w+)", text)
    assert alerts == re.findall(r"^\| `(Encke\w+)`", GUIDE, re.MULTILINE)


DASHBOARD = json.loads((CONTRIB / "grafana" / "encke.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

# Families without a panel, each with the reason. Everything else that `/metrics` has must be in one.
LEFT_OUT = {
    "encke_turns": "for those who work on Encke, and in `encke top`",
    "encke_poll_events": "for those who work on Encke, and in `encke top`",
    "encke_events_per_poll": "for those who work on Encke, and in `encke top`",
    "encke_system_calls": "for those who work on Encke, and in `encke top`",
    "encke_heartbeats": "sessions that are idle, a 25th of them a second",
    "encke_build": "the list of servers at the top is made of it",
    "encke_uptime_seconds": "starts are marked in all panels by it",
    "process_virtual_memory_bytes": "addresses, of which most are no memory: stacks and heaps that are not used",
}


def test_the_dashboard_is_about_metrics_that_exist(metrics, tmp_path):
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    assert len(queries) > 20
    used = {family(name) for query in queries for name in re.findall(r"\b(?:encke|process)_\w+", query)}
    assert used <= metrics, used - metrics
    # A query says which servers it is about, or all of them are mixed.
    for query in queries:
        assert query.count("$instance") == len(re.findall(r"\b(?:encke|process)_\w+", query)), query
    # Prometheus reads each of them.
    plain = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in queries]
    rules = [{"record": f"panel:query:{index}", "expr": query} for index, query in enumerate(plain)]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "rules.json")


def test_each_metric_has_a_panel_or_a_reason_to_have_none(metrics):
    shown = {family(name) for panel in PANELS for name in re.findall(r"\b(?:encke|process)_\w+", json.dumps(panel["targets"]))}
    assert metrics - shown == LEFT_OUT.keys(), (metrics - shown - LEFT_OUT.keys(), LEFT_OUT.keys() - (metrics - shown))
    # Those that are said to be elsewhere on the dashboard are.
    elsewhere = json.dumps([DASHBOARD["templating"], DASHBOARD["annotations"]])
    assert "encke_build_info" in elsewhere and "encke_uptime_seconds" in elsewhere


def test_the_panels_of_the_dashboard_have_places_and_names_of_their_own():
    taken = set()
    for panel in DASHBOARD["panels"]:
        x, y, w, h = (panel["gridPos"][key] for key in "xywh")
        assert x + w <= 24, panel["title"]
        place = {(column, line) for column in range(x, x + w) for line in range(y, y + h)}
        assert not place & taken, f"{panel['title']} is on top of another one"
        taken |= place
    for unique in ("id", "title"):
        assert len({panel[unique] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    # Counters grow: what they say is their rate. A histogram is read by its buckets, or for its mean.
    for panel in PANELS:
        for target in panel["targets"]:
            for counter in re.findall(r"\b\w+_(?:total|bucket|sum|count)\{", target["expr"]):
                assert f"rate({counter}" in target["expr"], (panel["title"], target["expr"])


# The threat model


def test_the_settings_of_the_threat_model_exist():
    text = (ROOT / "SECURITY.md").read_text()
    helped = "".join(encke(*command, "--help").stdout for command in (["serve"], ["listen"], ["publish"]))
    flags = set(re.findall(r"(?<=`)--[a-z][a-z-]+", text))
    missing = {flag for flag in flags if not re.search(rf"{flag}\b(?!-)", helped)}
    assert len(flags) > 20 and not missing, missing


# Kubernetes


@contextlib.contextmanager
def served(*flags):
    server = Server(*flags)
    try:
        yield server
    finally:
        server.kill()


def manifest(kind):
    text = (CONTRIB / "kubernetes" / "encke.yaml").read_text()
    (found,) = [part for part in text.split("\n---\n") if re.search(rf"^kind: {kind}$", part, re.MULTILINE)]
    return found


def test_a_pod_gets_longer_to_end_than_its_streams_and_is_probed_where_it_answers():
    pod = manifest("StatefulSet")
    grace = int(re.search(r"terminationGracePeriodSeconds: (\d+)", pod)[1])
    drain = int(re.search(r"--drain-timeout=(\d+)s", pod)[1])
    # And some more for the history and the graph to be written.
    assert grace >= drain + 10
    ports = dict(re.findall(r"{name: (\w+), containerPort: (\d+)}", pod))
    probes = dict(re.findall(r"(\w+)Probe:\n +httpGet: {path: (\S+), port: control}", pod))
    assert probes == {"readiness": "/readyz", "liveness": "/livez", "startup": "/livez"}
    assert f"--control=0.0.0.0:{ports['control']}" in pod and f"--listen=0.0.0.0:{ports['public']}" in pod
    with served() as server:
        for path in probes.values():
            assert server.api.get(path).status_code == 200
    # Each flag of it is one of the server's.
    flags = re.findall(r"- --([a-z-]+)=", pod)
    text = encke("serve", "--help").stdout
    assert len(flags) > 7 and all(f"--{flag} " in text for flag in flags), flags


# Probes on the public listener


def test_load_balancers_may_ask_the_public_listener():
    with served("--drain-timeout", "5s") as server:
        with httpx.Client(base_url=server.public_url, **PLAIN) as client:
            for path in ("/livez", "/readyz"):
                answer = client.get(path, headers={"Host": "lb.example.org"})
                assert (answer.status_code, answer.text) == (200, "ok\n")
                assert answer.headers["cache-control"] == "no-store"
                # What a stranger learns is that there is a server.
                assert "server" not in answer.headers and "encke" not in str(answer.headers).lower()
        assert server.totals()["logins"] == 0
    with served("--health=false") as server:
        assert httpx.get(f"{server.public_url}/livez", **PLAIN).status_code == 404


# Rotation of the access log


def test_logrotate_takes_the_file(tmp_path):
    text = (CONTRIB / "logrotate" / "encke").read_text()
    assert re.search(r"^\s+postrotate\n.*HUP", text, re.MULTILINE) and not re.search(r"^\s+copytruncate", text, re.MULTILINE)
    # The package makes the user that the file names; here it is the one of the tests.
    own = f"{pwd.getpwuid(os.geteuid()).pw_name} {grp.getgrgid(os.getegid()).gr_name}"
    (tmp_path / "encke").write_text(replaced(text, {"/var/log/encke": tmp_path, "0640 encke encke": f"0640 {own}"}))
    command = [installed("logrotate"), "--debug", "--state", tmp_path / "state", tmp_path / "encke"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and f"rotating pattern: {tmp_path}/access.log" in done.stderr, done.stderr
