"""What web pages may do with the public listener, in Chromium."""

import pytest

from harness.node import Browser


@pytest.fixture(scope="module")
def browser():
    """Chromium, in which every name below `example` leads to this machine."""
    browser = Browser()
    yield browser
    browser.close()


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
