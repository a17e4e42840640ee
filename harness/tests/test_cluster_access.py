"""How nodes reach their engine: passwords, tokens, nkeys, credentials files and TLS, as nats-server itself asks for them;
an engine that is away for longer than nodes are patient, and one that takes smaller messages than before."""

import asyncio
import json
import threading
import time

import httpx
import nats
import pytest

from support.http import PLAIN, Sse
from support.nats import Nats
from support.nkeys import Nkey, Operator
from support.program import encke
from support.tls import Authority
from support.wait import until

FREE = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")


def secret(path, text):
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def checked(url, *flags):
    """Whether a node could join, as it says itself."""
    return encke("serve", *FREE, "--cluster", url, "--node", "n1", "--log-replicas", "1", "--check-config", *flags)


def assert_only(url, good, bad):
    """The engine takes one of the credentials, and neither the other nor none."""
    done = checked(url, *good)
    assert done.returncode == 0, done.stderr
    for flags in (bad, ()):
        refused = checked(url, *flags)
        assert refused.returncode == 1 and "refuses the credentials" in refused.stderr, refused.stderr


def test_nkeys_tokens_and_passwords(tmp_path):
    key, other = Nkey("user"), Nkey("user")
    seed, wrong = secret(tmp_path / "seed", key.seed), secret(tmp_path / "wrong", other.seed)
    with Nats(1, extra=f"authorization {{ users: [{{ nkey: {key.public} }}] }}\n") as engine:
        assert_only(engine.url, ["--cluster-nkey-file", seed], ["--cluster-nkey-file", wrong])
        [server] = engine.servers
        for extra, name, flags in (
            ("token: a-token", "a-token", []),
            ("user: encke, password: a-password", "a-password", ["--cluster-user", "encke"]),
        ):
            server.stop()
            server.extra = f"authorization {{ {extra} }}\n"
            server.start()
            engine.until_healthy()
            flag = "--cluster-password-file" if flags else "--cluster-token-file"
            assert_only(
                engine.url, [*flags, flag, secret(tmp_path / name, f"{name}\n")],
                [*flags, flag, secret(tmp_path / f"wrong-{name}", "wrong")],
            )  # fmt: skip


def test_a_node_works_with_a_credentials_file(start, tmp_path):
    operator = Operator()
    good, bad = secret(tmp_path / "creds", operator.credentials()), secret(tmp_path / "bad", Operator().credentials())
    with Nats(1, extra=operator.configuration(tmp_path)) as engine:
        assert_only(engine.url, ["--cluster-credentials", good], ["--cluster-credentials", bad])
        flags = ["--cluster", engine.url, "--log-replicas", "1", "--log-bytes", "64MiB", "--cluster-credentials", good]
        node = start(*flags, "--node", "n1", "--data", tmp_path / "n1")
        assert node.publish("rj", "hello")["nodes"] == 1
        node.stop()
        # Commands that speak to the engine take the same flags.
        refused = encke("cluster", "import", *flags, "--data", tmp_path / "n1")
        assert refused.returncode == 1 and "has entries already" in refused.stderr, refused.stderr
    nothing = checked("nats://127.0.0.1:1", "--cluster-credentials", secret(tmp_path / "no", "no credentials"))
    assert nothing.returncode == 1 and "not a credentials file" in nothing.stderr, nothing.stderr


def test_a_node_works_over_tls_and_proves_who_it_is_by_a_certificate(start, tmp_path):
    authority, stranger = Authority(tmp_path / "own"), Authority(tmp_path / "other")
    own, client, strange = authority.issue("127.0.0.1"), authority.issue("n1"), stranger.issue("n1")
    extra = f"tls {{ cert_file: {own.chain}, key_file: {own.key}, ca_file: {authority.pem}, verify: true }}\n"
    with Nats(1, extra=extra) as engine:
        trust, proof = ["--cluster-tls-ca", authority.pem], ["--cluster-tls-cert", client.chain, "--cluster-tls-key", client.key]
        flags = ["--cluster", engine.url.replace("nats://", "tls://"), "--log-replicas", "1", "--log-bytes", "64MiB"]
        node = start(*flags, *trust, *proof, "--node", "n1")
        assert node.publish("rj", "hello")["nodes"] == 1
        url = engine.url
        # An engine of another authority, no certificate, that of a stranger, and no TLS at all.
        assert checked(url, *trust, *proof).returncode == 0
        for wrong in (
            [*proof, "--cluster-tls-ca", stranger.pem], trust,
            [*trust, "--cluster-tls-cert", strange.chain, "--cluster-tls-key", strange.key],
        ):  # fmt: skip
            refused = checked(url, *wrong)
            assert refused.returncode == 1 and "can be reached" in refused.stderr, (wrong, refused.stderr)
    with Nats(1) as engine:
        refused = checked(engine.url, *trust)
        assert refused.returncode == 1 and "can be reached" in refused.stderr, refused.stderr


@pytest.fixture
def engine():
    with Nats(1) as engine:
        yield engine


def of(engine):
    return ["--cluster", engine.url, "--log-replicas", "1", "--log-bytes", "64MiB", "--node", "n1", "--memory"]


def ask(engine, subject, **request):
    """A request to the engine itself, and its answer."""

    async def asked():
        client = await nats.connect(engine.url)
        try:
            return json.loads((await client.request(subject, json.dumps(request).encode(), timeout=5)).data)
        finally:
            await client.close()

    answer = asyncio.run(asked())
    assert "error" not in answer, answer
    return answer


def test_a_stream_that_cannot_be_the_log_is_refused_with_all_that_is_wrong_and_left_as_it_is(engine, start):
    foreign = ask(engine, "$JS.API.STREAM.CREATE.encke-prod", name="encke-prod", subjects=["orders.*"], max_age=10**12)
    # The log of one cluster, copied by hand for another.
    start(*of(engine), "--cluster-name", "one").stop()
    own = ask(engine, "$JS.API.STREAM.INFO.encke-one")["config"]
    ask(engine, "$JS.API.STREAM.CREATE.encke-two", **{**own, "name": "encke-two", "subjects": ["encke.two.log"]})
    for name, words in (
        ("prod", ["another program created it", "orders.*", "can be deleted or purged", "removes entries after", "--cluster-name"]),
        ("two", ["it is the log of the cluster one"]),
    ):
        for flags in ([], ["--check-config"]):
            refused = encke("serve", *FREE, *of(engine), "--cluster-name", name, *flags)
            assert refused.returncode == 1, refused.stderr
            assert f"the stream encke-{name} cannot be the log of this cluster" in refused.stderr, refused.stderr
            assert all(word in refused.stderr for word in words), refused.stderr
            assert "clients are served" not in refused.stderr
    now = ask(engine, "$JS.API.STREAM.INFO.encke-prod")
    assert now["config"] == foreign["config"] and now["state"]["last_seq"] == 0


def test_clients_are_sent_elsewhere_when_the_engine_is_away_for_longer_than_nodes_are_patient(engine, start):
    node = start(*of(engine), "--cluster-patience", "5s", "--retry", "1s")

    def ready():
        return httpx.get(node.control_url + "/readyz", **PLAIN).status_code

    with Sse(node, "alice") as stream:
        node.publish("alice", "before")
        assert stream.data() == "before"
        began = time.monotonic()
        engine.servers[0].kill()
        until(lambda: ready() == 503, "it is not ready")
        assert time.monotonic() - began < 4, "long before its patience is over"
        answer = node.api.post("/v1/publish/alice", content="x")
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True), answer.text
        assert stream.event() is None, "the stream ends as at a drain"
        assert 4.5 < time.monotonic() - began < 20
        assert len(stream.retry) == 2, stream.retry
    engine.servers[0].start()
    engine.until_healthy()
    until(lambda: ready() == 200, "it is ready again")
    metrics = node.api.get("/metrics", headers={"Accept": "text/plain"}).text
    counted = dict(line.split(" ")[:2] for line in metrics.splitlines() if line.startswith("encke_log_"))
    assert float(counted["encke_log_connects_total"]) >= 2, counted
    assert float(counted["encke_log_disconnects_total"]) >= 1, counted
    with Sse(node, "alice") as stream:
        until(lambda: node.api.post("/v1/publish/alice", content="after").status_code == 200, "it publishes again")
        assert stream.data() == "after"


def test_a_writer_goes_on_when_the_engine_takes_smaller_messages_than_before(engine, start):
    node = start(*of(engine), "--event-bytes", "512KiB")
    [server] = engine.servers
    assert node.publish("rj", "x" * 400_000)["nodes"] == 1
    # Entries of 400,000 bytes are on their way while the engine is started anew with less.
    server.pause()
    answers = [send(node, "x" * 400_000), send(node, "small")]
    server.kill()
    server.extra = "max_payload: 100000\n"
    server.start()
    engine.until_healthy()
    large, small = [thread() for thread in answers]
    assert large in (413, 504, 503) and small in (200, 503, 504), (large, small)
    until(lambda: node.api.post("/v1/publish/rj", content="small").status_code == 200, "small events go on")
    refused = node.api.post("/v1/publish/rj", content="x" * 400_000)
    assert refused.status_code == 413 and "max_payload" in refused.text, refused.text


def send(node, content):
    """Publishes from another thread; what is returned waits for the status."""
    status = []
    url = f"{node.control_url}/v1/publish/rj"
    thread = threading.Thread(
        target=lambda: status.append(httpx.post(url, content=content, timeout=60.0, **PLAIN).status_code)
    )
    thread.start()

    def wait():
        thread.join()
        return status[0]

    return wait
