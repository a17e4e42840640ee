import collections
import contextlib
import itertools
import os
import subprocess

import pytest

from support.disk import FailingDisk
from support.node import Browser
from support.ports import Port
from support.program import BINARY
from support.server import Server

_numbers = itertools.count()

# Files that take longest although they have few tests. They begin first: at the end, all would wait for them.
LONG_FILES = """test_cluster_laws test_help_examples test_durable test_prove test_autobahn test_planted test_engine
    test_cluster_operations test_cluster_state test_examples test_buffers test_erlang_strangers test_nats test_cluster_recipes
    test_flood_resume test_js_client test_history_durable test_listen_resume test_cluster_cut test_cluster_access test_cluster_import""".split()


def pytest_collection_modifyitems(items):
    """Orders files, not the tests in them: those that take longest, and then those with most tests."""
    tests = collections.Counter(item.path.stem for item in items)

    def order(item):
        name = item.path.stem
        return LONG_FILES.index(name) if name in LONG_FILES else len(LONG_FILES), -tests[name]

    items.sort(key=order)


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


@pytest.fixture(scope="module")
def browser():
    """Chromium, in which every name below `example` leads to this machine."""
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def page(browser):
    """The browser with an empty page. The test must cause no complaint and no dialog in it."""
    browser.complaints()
    browser.goto("about:blank")
    yield browser
    assert browser.complaints() == []
    assert browser.dialogs() == 0
    browser.goto("about:blank")


@pytest.fixture
def name():
    """Makes ids that no other test has."""
    return lambda word="id": f"{word}-{next(_numbers)}"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 12 MB, if we may make one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "encke-test", place], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("only root may mount a tmpfs")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def failing_disk(tmp_path):
    """A disk that can be made to fail, if we may make one."""
    try:
        disk = FailingDisk(tmp_path)
    except OSError as error:
        pytest.skip(f"only root may mount a file: {error}")
    yield disk
    disk.close()
