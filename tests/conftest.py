import contextlib
import itertools

import pytest

from harness.ports import Port
from harness.program import BINARY
from harness.server import Server

_numbers = itertools.count()


def pytest_report_header():
    return f"binary: {BINARY}"


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
