"""What the page of a demo may ask of the control listener: only in a browser on this machine."""

import http.client
import itertools
import json
import re
import socket

import pytest

from support.http import Sse
from support.reverse import ALL, TELLING, reverse_proxy
from support.server import Server
from support.wait import PATIENCE, until

SECRET = "X-Encke-Demo"


@pytest.fixture(scope="module")
def server():
    # Any host, so that what is refused is refused by the rules of the page's requests.
    server = Server("--demo", "--host", "*", "--drain-timeout", "5s")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def plain():
    """A server that nobody asked for a demo."""
    server = Server("--host", "*", "--drain-timeout", "5s")
    yield server
    server.stop()


def ask(address, method, target, headers, body=b""):
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{key}: {value}" for key, value in headers.items()] + ["", ""]
        connection.sendall("\r\n".join(lines).encode() + body)
        answer = http.client.HTTPResponse(connection, method=method)
        answer.begin()
        return answer.status, answer.read().decode()


def host(server):
    return "%s:%d" % server.public


def control_host(server):
    return "%s:%d" % server.control


def of_page(server):
    """Headers of the page's own requests."""
    return {"Host": control_host(server), "Origin": server.public_url, SECRET: server.demo_secret()}


def test_publish_and_subscriptions(server, name):
    me, star = name("me"), name("star")
    headers = of_page(server)
    status, _ = ask(server.control, "PUT", f"/demo/v1/subscriptions/{me}/{star}", headers)
    assert status == 200
    with Sse(server, me) as stream:
        target = f"/demo/v1/publish/{star}?data=a%20b%0Ac&type=t"
        status, body = ask(server.control, "POST", target, headers)
        receipt = json.loads(body)
        assert (status, receipt["written"]) == (200, 1)
        assert stream.event() == ("t", "a b\nc", receipt["id"])
    status, body = ask(server.control, "GET", f"/demo/v1/subscriptions/{me}", headers)
    assert json.loads(body)["subscriptions"] == [star]
    status, _ = ask(server.control, "DELETE", f"/demo/v1/subscriptions/{me}/{star}", headers)
    assert status == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({SECRET: None}, 403),
        ({SECRET: ""}, 403),
        ({SECRET: "1"}, 403),
        ({SECRET: "0" * 32}, 403),
        ({SECRET: "{secret}0"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "https://{host}"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": None}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Content-Length": "1"}, 413),
        ({"Via": "1.1 edge"}, 403),
        ({"Forwarded": "for=127.0.0.1"}, 403),
        ({"X-Forwarded-For": "127.0.0.1"}, 403),
        ({"x-forwarded-port": "80"}, 403),
    ],
)
def test_only_its_own_page_may(server, name, change, status):
    me = name()
    words = {"host": host(server), "secret": server.demo_secret()}
    headers = of_page(server)
    headers |= {key: value and value.format(**words) for key, value in change.items()}
    headers = {key: value for key, value in headers.items() if value is not None}
    target = f"/demo/v1/subscriptions/{me}/x"
    found, body = ask(server.control, "PUT", target, headers, b"x")
    assert found == status, body
    assert server.api.get(f"/v1/subscriptions/{me}").json()["subscriptions"] == []


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/demo/v1/stats", 404),
        ("DELETE", "/demo/v1/sessions/a", 404),
        ("POST", "/demo/v1/publish", 404),
        ("POST", "/demo/v1/publish/a", 400),
        ("POST", "/demo/v1/publish/%FF?data=x", 400),
        ("POST", "/demo/../v1/publish/a?data=x", 404),
        ("POST", "/demo//v1/publish/a?data=x", 404),
        ("OPTIONS", "/demo/v1/publish/a", 204),
    ],
)
def test_only_what_the_page_needs(server, method, target, status):
    assert ask(server.control, method, target, of_page(server))[0] == status


def test_secret_is_of_one_run(server, start):
    other = start("--demo")
    secrets = {server.demo_secret(), other.demo_secret()}
    assert len(secrets) == 2 and all(re.fullmatch("[0-9a-f]{32}", secret) for secret in secrets)
    headers = {**of_page(other), SECRET: server.demo_secret()}
    assert ask(other.control, "POST", "/demo/v1/publish/a?data=x", headers)[0] == 403
    assert server.demo_secret() not in server.log


@pytest.mark.parametrize(
    "change",
    [
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "https://{host}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Via": "1.1 edge"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Forwarded-Host": "a"},
    ],
)
def test_secret_is_for_the_page_only(server, change):
    headers = {"Host": "%s:%d" % server.control, "Origin": server.public_url}
    assert ask(server.control, "GET", "/v1/demo/secret", headers)[0] == 200
    headers |= {key: value and value.format(host=host(server)) for key, value in change.items()}
    headers = {key: value for key, value in headers.items() if value is not None}
    assert ask(server.control, "GET", "/v1/demo/secret", headers)[0] == 403


def test_the_page_may_nothing_unless_it_is_asked_for(plain):
    headers = {"Host": control_host(plain), "Origin": plain.public_url, SECRET: "1"}
    assert ask(plain.control, "POST", "/demo/v1/publish/a?data=x", headers)[0] in (403, 404)
    for path in ["/demo", "/relay"]:
        target = f"{path}/v1/publish/a?data=x"
        assert ask(plain.public, "POST", target, {"Host": host(plain), SECRET: "1"})[0] == 404
    headers = {"Host": "%s:%d" % plain.control, "Origin": plain.public_url}
    assert ask(plain.control, "GET", "/v1/demo/secret", headers)[0] in (403, 404)
    assert 'name="control" content=""' in ask(plain.public, "GET", "/", {"Host": host(plain)})[1]


@pytest.mark.parametrize("flags", [["--control-token", "secret-0123456789"], ["--allow-anonymous"]])
def test_demo_is_refused_where_others_could_use_it(start, flags):
    public = "0.0.0.0:0" if "--allow-anonymous" in flags else "127.0.0.1:0"
    token = flags[1] if len(flags) > 1 else None
    server = start("--demo", *flags, public=public, token=token)
    server.public = ("127.0.0.1", server.public[1])
    assert "the page cannot publish" in server.log
    headers = {"Host": control_host(server), "Origin": server.public_url, SECRET: "1"}
    assert ask(server.control, "POST", "/demo/v1/publish/a?data=x", headers)[0] in (401, 403, 404)


@pytest.mark.parametrize("demo", [False, True], ids=["plain", "demo"])
@pytest.mark.parametrize("proxy", ALL)
def test_nobody_publishes_through_a_reverse_proxy(request, port, name, proxy, demo):
    """A stranger may send any `Host` and `Origin`, and read all that the public listener answers."""
    server = request.getfixturevalue("server" if demo else "plain")
    me = name()
    with reverse_proxy(proxy, port().number, server.public) as edge, Sse(server, me) as stream:
        edge_host = "%s:%d" % edge
        hosts = [edge_host, host(server), "localhost", "push.example"]
        found = {"1"}
        for sent, target in itertools.product(hosts, ["/", "/v1/demo/secret", "/demo/v1/demo/secret"]):
            headers = {"Host": sent, "Origin": server.public_url}
            found.update(re.findall("[0-9a-f]{32}", ask(edge, "GET", target, headers)[1]))
        assert demo is False or server.demo_secret() not in found
        for sent, secret in itertools.product(hosts, found):
            for origin in [None, f"http://{sent}", server.public_url, "http://push.example"]:
                headers = {"Host": sent, SECRET: secret}
                headers |= {"Origin": origin} if origin else {}
                for prefix, (method, target) in itertools.product(["/demo", "/relay"], [
                    ("POST", f"publish/{me}?data=x"),
                    ("PUT", f"subscriptions/{me}/x"),
                    ("GET", f"subscriptions/{me}"),
                    ("DELETE", f"subscriptions/{me}/x"),
                ]):
                    status, body = ask(edge, method, f"{prefix}/v1/{target}", headers)
                    assert status in (403, 404), (headers, target, status, body)
        server.publish(me, "last")
        assert stream.data() == "last"
    assert server.api.get(f"/v1/subscriptions/{me}").json()["subscriptions"] == []


@pytest.mark.parametrize("proxy", ALL)
def test_a_proxy_counts_with_the_host_that_it_sends(start, port, proxy):
    """Alone, nginx sends the address of the server; the others pass on what clients sent."""
    passes_on = proxy == "nginx, Host" or not proxy.startswith("nginx")
    headers = {"Host": "push.example"}
    for flags, status in [([], 421 if passes_on else 200), (["--host", "push.example"], 200)]:
        server = start(*flags)
        with reverse_proxy(proxy, port().number, server.public) as edge:
            assert ask(edge, "HEAD", "/events/a", headers)[0] == status, flags
            assert ask(edge, "HEAD", "/events/a", {"Host": "localhost"})[0] == 200


@pytest.mark.parametrize("proxy", TELLING)
def test_not_even_the_secret_opens_what_came_through_a_proxy(server, port, proxy):
    with reverse_proxy(proxy, port().number, server.control) as edge:
        status, body = ask(edge, "POST", "/demo/v1/publish/a?data=x", of_page(server))
        assert status == 403, body
    with reverse_proxy(proxy, port().number, server.public) as edge:
        headers = {"Host": host(server)}
        assert 'name="control" content=""' in ask(edge, "GET", "/", headers)[1]


@pytest.mark.parametrize("proxy", ["nginx, HTTP/1.1", "nginx, X-Forwarded-For", "haproxy", "encke-proxy tcp"])
def test_page_behind_a_proxy_reads_and_does_not_publish(server, port, name, browser, proxy):
    me = name()
    with reverse_proxy(proxy, port().number, server.public) as edge:
        browser.goto("about:blank")
        browser.goto("http://%s:%d/#%s" % (*edge, me))
        browser.wait_text("#state", "live")
        until(lambda: browser.visible(".unrelayed"), "explained")
        assert "encke serve --demo" in browser.text("#send")
        assert not browser.visible("#publish-form") and not browser.visible("#subscribe-form")
        server.publish(me, "from elsewhere")
        until(lambda: browser.texts("#events .data") == ["from elsewhere"], "arrived")
        browser.goto("about:blank")
    browser.complaints()  # The control listener's refusal is told to the console.
