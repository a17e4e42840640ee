import contextlib
import itertools
import os

import pytest

from harness.ports import Port
from harness.program import BINARY
from harness.server import Server

_numbers = itertools.count()


def pytest_report_header():
    return f"binary: {BINARY}"


def pytest_terminal_summary(terminalreporter, config):
    """Adds the tests that were skipped to the list that `make test` shows in the end."""
    list_path = os.environ.get("ENCKE_SKIPPED")
    # A worker of xdist reports to the controller, which has all of them.
    if not list_path or hasattr(config, "workerinput"):
        return
    with open(list_path, "a") as skipped:
        for report in terminalreporter.getreports("skipped"):
            _, _, reason = report.longrepr
            skipped.write(f"skipped: {report.nodeid}: {reason.removeprefix('Skipped: ')}\n")


@pytest.fixture(scope="session")
def server():
    """A server that many tests share: each takes ids of its own."""
    server = Server("--drain-timeout", "5s")
    yield server
    server.stop()


@pytest.fixture
def start():
    """Starts servers with flags; all are stopped in the end, and must end well."""
    started = []

    def start(*flags, **options):
        flags = ["--drain-timeout", "3s", *flags] if "--drain-timeout" not in flags else flags
        server = Server(*flags, **options)
        started.append(server)
        return server

    yield start
    failures = []
    for server in started:
        try:
            if server.api:
                server.stop()
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.fixture
def port():
    """Makes ports that stay free until somebody listens at them, and when nobody does any more."""
    with contextlib.ExitStack() as held:
        yield lambda: held.enter_context(Port())


@pytest.fixture
def name():
    """Makes ids that no other test has."""
    return lambda word="id": f"{word}-{next(_numbers)}"
