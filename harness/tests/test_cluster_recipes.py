"""What contrib/ has for clusters: files for containers whose flags exist, and the script of `make cluster`."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import httpx
import pytest
import yaml

from support.nats import NEWEST, Nats
from support.program import BINARY, ENVIRONMENT, ROOT, encke
from support.wait import until

COMPOSE = ROOT / "contrib/cluster/compose.yaml"
KUBERNETES = ROOT / "contrib/kubernetes/encke.yaml"


def seconds(text):
    """Seconds of a duration as both formats write it."""
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * (60 if unit == "m" else 1)


def checked(arguments, engine, directory):
    """Asks `encke serve` whether it takes arguments, with the places of this machine in place of theirs."""
    secret = directory / "secret"
    secret.write_text("a-secret-of-more-than-thirty-two-characters")
    secret.chmod(0o600)
    arguments = [re.sub(r"nats://[a-z0-9:,/]*", engine.url, word) for word in arguments]
    arguments = [re.sub(r"/secret/[a-z-]+", str(secret), word) for word in arguments]
    arguments = [word.replace("/data/graph", str(directory / "graph")) for word in arguments]
    arguments = [re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", word).replace("$(NODE)", "encke-0") for word in arguments]
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
    return encke(*arguments, "--check-config", env=environment)


@pytest.fixture(scope="module")
def engine():
    with Nats(3) as engine:
        yield engine


def test_the_nodes_of_compose_have_flags_that_exist_and_time_to_end(engine, tmp_path):
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    nodes = {name: service for name, service in services.items() if service["command"][0] == "serve"}
    assert set(nodes) == {"n1", "n2", "n3"}
    for name, service in nodes.items():
        assert service["command"][-2:] == ["--node", name]
        assert seconds(service["stop_grace_period"]) > 10, "longer than the default of --drain-timeout"
        answer = checked(service["command"], engine, tmp_path)
        assert answer.returncode == 0, answer.stderr
    assert services["proxy"]["entrypoint"] == ["/usr/bin/encke-proxy"]
    # Names of containers mean nothing here.
    proxy = [re.sub(r"n\d:8000", "127.0.0.1:8000", word) for word in services["proxy"]["command"]]
    answer = encke(*[word.replace("0.0.0.0:8000", "127.0.0.1:0") for word in proxy], "--check-config")
    assert answer.returncode == 0, answer.stderr


def test_the_engine_of_compose_starts_with_its_configuration(tmp_path):
    text = yaml.safe_load(COMPOSE.read_text())["configs"]["nats"]["content"]
    path = tmp_path / "nats.conf"
    path.write_text(text)
    answer = subprocess.run([NEWEST, "--config", path, "-t"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert "sync_interval: always" in text
    values = yaml.safe_load((ROOT / "contrib/kubernetes/nats-values.yaml").read_text())
    assert values["config"]["jetstream"]["merge"] == {"sync_interval": "always"}


def test_the_nodes_of_kubernetes_have_flags_that_exist_probes_that_answer_and_time_to_end(engine, tmp_path):
    parts = {(part["kind"], part["metadata"]["name"]): part for part in yaml.safe_load_all(KUBERNETES.read_text())}
    pod = parts["StatefulSet", "encke"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    answer = checked(container["args"], engine, tmp_path)
    assert answer.returncode == 0, answer.stderr
    [drain] = [word.partition("=")[2] for word in container["args"] if word.startswith("--drain-timeout=")]
    assert pod["terminationGracePeriodSeconds"] > 2 * seconds(drain)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    flags = dict(word.split("=", 1) for word in container["args"] if "=" in word)
    assert flags["--listen"].endswith(f":{ports['public']}")
    assert flags["--control"].endswith(f":{ports['control']}")
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["port"] == "control"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # A node that cannot reach its engine is not ready, and is not to be killed for that.
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    selector = parts["StatefulSet", "encke"]["spec"]["selector"]["matchLabels"]
    for (kind, _), part in parts.items():
        if kind == "Service":
            assert part["spec"]["selector"] == selector
            assert {port["port"] for port in part["spec"]["ports"]} <= set(ports.values())


def test_make_cluster_runs_three_nodes_behind_a_proxy_and_leaves_nothing(tmp_path):
    directory = tmp_path / "cluster"
    script = ROOT / "contrib/cluster/try"
    with open(tmp_path / "said", "w+") as said:
        process = subprocess.Popen(
            [sys.executable, script, "--encke", BINARY, "--directory", directory, "--any-ports"],
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NATS_SERVER": str(NEWEST)},
        )
        try:
            until(lambda: process.poll() is not None or (directory / "ports.json").exists(), "it runs")
            assert process.poll() is None, (tmp_path / "said").read_text()
            ports = json.loads((directory / "ports.json").read_text())
            pids = [int(path.read_text()) for path in directory.glob("*.pid")]
            assert len(pids) == 7
            watch_a_client_move(ports, directory)
            pids += [int(path.read_text()) for path in directory.glob("*.pid")]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert process.returncode == 0, (tmp_path / "said").read_text()
    assert not [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]


def watch_a_client_move(ports, directory):
    """A client behind the proxy gets what is published at any node, and moves when its node is killed."""
    controls = [f"http://127.0.0.1:{control}" for _, control in ports["nodes"].values()]
    assert httpx.put(f"{controls[0]}/v1/subscriptions/alice/rj").status_code == 200
    front = f"http://127.0.0.1:{ports['front']}/"
    assert "Encke" in httpx.get(front).text
    listening = subprocess.Popen(
        [BINARY, "listen", "alice", "--url", front], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        def has_alice():
            return next((name for name, control in zip(ports["nodes"], controls) if sessions(control)), None)

        home = until(has_alice, "alice is online")
        for number, control in enumerate(controls):
            assert httpx.post(f"{control}/v1/publish/rj", content=f"event {number}").json()["online"] == 1
        os.kill(int((directory / f"{home}.pid").read_text()), signal.SIGKILL)
        others = [control for name, control in zip(ports["nodes"], controls) if name != home]
        until(lambda: any(sessions(control) for control in others), "alice is at another node")
        httpx.post(f"{others[0]}/v1/publish/rj", content="the last").raise_for_status()
        got = [listening.stdout.readline() for _ in range(4)]
        assert ["event 0" in got[0], "event 1" in got[1], "event 2" in got[2], "the last" in got[3]] == [True] * 4, got
    finally:
        listening.kill()
        listening.wait()


def sessions(control):
    try:
        return httpx.get(f"{control}/v1/sessions/alice").json()["sessions"]
    except httpx.HTTPError:
        return []
