"""What web pages may do with the public listener, in Chromium."""

import http.server
import threading

import pytest

from support.http import Sse
from support.wait import until


@pytest.fixture
def page(browser):
    yield browser
    browser.goto("about:blank")
    browser.complaints()


def url_of(server, host):
    return f"http://{host}:{server.public[1]}"


class TestRebinding:
    """A page whose name in DNS has been made to lead to the server has the server's origin."""

    FETCH = "fetch('/events/alice').then(answer => answer.status)"
    EVENTS = """new Promise(done => {
        const source = new EventSource('/events/alice');
        source.onopen = () => { source.close(); done('open'); };
        source.onerror = () => done(source.readyState);
    })"""

    def test_a_foreign_name_reads_no_stream(self, page, start):
        page.goto(url_of(start(), "rebound.example"))
        assert page.evaluate(self.FETCH) == 421
        assert page.evaluate(self.EVENTS) == 2, "closed for good"
        assert "--host" in page.evaluate("document.body.textContent")

    def test_names_that_are_listed_do(self, page, start):
        server = start("--host", "push.example", "--host", "*.apps.example")
        for host in ["push.example", "a.apps.example", "a.localhost", "127.0.0.1"]:
            page.goto(url_of(server, host))
            assert page.evaluate(self.FETCH) == 200, host
            assert page.evaluate(self.EVENTS) == "open", host
        page.goto(url_of(server, "apps.example"))
        assert page.evaluate(self.FETCH) == 421


class Blank(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>a page</title>")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def pages():
    """A web server with a blank page, under every name below `example`: its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield web.server_address[1]
        web.shutdown()
        thread.join()


class TestOtherOrigins:
    """A page of another origin reads streams where its origin is listed, and nowhere else."""

    FETCH = """fetch('%s', %s).then(
        answer => answer.status,
        () => 'refused',
    )"""
    EVENTS = """new Promise(done => {
        const source = new EventSource('%s', { withCredentials: %s });
        source.onopen = () => { source.close(); done('open'); };
        source.onerror = () => done('refused');
    })"""
    WITH_TOKEN = "{ headers: { Authorization: 'Bearer a.b.c' } }"

    @pytest.mark.parametrize(
        ("listed", "plain", "credentials", "token"),
        [
            ("own", 200, 200, 200),
            ("*", 200, "refused", 200),
            ("other", "refused", "refused", "refused"),
        ],
    )
    def test_what_is_listed_counts(self, page, pages, start, listed, plain, credentials, token):
        origin = f"http://app.example:{pages}"
        allowed = {"own": origin, "*": "*", "other": f"http://app.example:{pages + 1}"}[listed]
        server = start("--cors-origin", allowed)
        stream = f"{server.public_url}/events/alice"
        page.goto(origin)
        for options, expected in [
            ("{}", plain),
            ("{ credentials: 'include' }", credentials),
            (self.WITH_TOKEN, token),
            ("{ headers: { 'Last-Event-ID': 'e-1', 'Cache-Control': 'no-cache' } }", plain),
        ]:
            assert page.evaluate(self.FETCH % (stream, options)) == expected, options
        for with_credentials, expected in [("false", plain), ("true", credentials)]:
            found = page.evaluate(self.EVENTS % (stream, with_credentials))
            assert found == ("open" if expected == 200 else "refused"), with_credentials


def test_an_event_source_comes_back_to_a_server_that_was_full(page, pages, start):
    """Chromium closes one for good that is answered 503."""
    server = start("--max-connections", "1", "--cors-origin", "*")
    page.goto(f"http://app.example:{pages}")
    with Sse(server, "other"):
        page.evaluate(f"""(() => {{
            window.states = [];
            window.source = new EventSource('{server.public_url}/events/late');
            source.onerror = () => states.push(source.readyState);
            source.onmessage = event => states.push(event.data);
        }})()""")
        until(lambda: page.evaluate("states.join()") == "0", "it is connecting again")
        assert server.totals()["requests_rejected"] == 1
    until(lambda: server.sessions("late"), "it has come back")
    server.publish("late", "in")
    until(lambda: page.evaluate("states").count("in") == 1, "arrived")
    page.evaluate("source.close()")


def test_the_transport_of_2008_runs_no_script(page, start):
    """It sends payloads as they are, as HTML. Its header keeps browsers from running them."""
    server = start()
    page.goto("about:blank")
    page.begin(f"{server.public_url}/test/mallory")
    until(lambda: server.sessions("mallory"), "online")
    server.publish("mallory", "<h1>seen</h1><script>document.title = 'run'; alert(1)</script>")
    until(lambda: page.texts("h1") == ["seen"], "shown as HTML")
    server.publish("mallory", "<p>after</p>")
    until(lambda: page.texts("p") == ["after"], "shown after the script")
    assert page.evaluate("document.title") == ""
    assert page.evaluate("window.origin") == "null", "it has no access to the server's origin"
    assert page.dialogs() == 0
