"""Descriptors that strangers use up, on each listener."""

import http.client
import resource
import time

from support.server import Server, measure_cpu
from support.wait import until

from .fault import beside, fault
from .herd import Herd


# Publishers are told from strangers by it.
TOKEN = "sixteen-or-more-characters"


def answer_times(server, count, path, listener):
    """Seconds that requests take on a connection of their own each, ascending."""
    times = []
    for _ in range(count):
        began = time.monotonic()
        client = http.client.HTTPConnection(*listener, timeout=10)
        try:
            client.request("GET", path)
            client.getresponse().read()
            times.append(time.monotonic() - began)
        except OSError:
            times.append(float("inf"))
        finally:
            client.close()
        time.sleep(0.01)
    return sorted(times)


def publish_anew(server):
    """Publishes over a connection of its own, as a publisher that has just been started does."""
    client = http.client.HTTPConnection(*server.control, timeout=10)
    try:
        client.request("POST", "/v1/publish/rj", "x", {"Authorization": f"Bearer {TOKEN}"})
        assert client.getresponse().status == 200
    finally:
        client.close()


def exhausted(outcome, count, listener, seconds):
    """More connections than there are descriptors, which say nothing, and come again as soon as they are closed."""
    server = Server("--head-timeout", "60s", nofile=count, token=TOKEN, env={"ENCKE_CONTROL_TOKEN": TOKEN})
    took = []

    def publish(going):
        while going():
            # Over the connection that it keeps, and over a new one.
            began = time.monotonic()
            server.publish("rj", "x")
            kept = time.monotonic()
            publish_anew(server)
            took.extend((kept - began, time.monotonic() - kept))
            time.sleep(0.02)

    try:
        assert server.publish("rj", "x")["subscribers"] == 1
        # At its start it says which limit it will reach first.
        said = len(server.log)
        address = server.public if listener == "public" else server.control
        with Herd(address, count + count // 4, b"GET / HTTP/1.1\r\n", again=True, may_fail=True):
            with beside(publish):
                health = answer_times(server, 20, "/healthz", server.control)
                cpu = measure_cpu(server, seconds / 2)
                time.sleep(seconds / 2)
            outcome.figure("slowest publish", max(took) * 1000, 100, " ms")
            outcome.figure("slowest health check", health[-1] * 1000, 100, " ms")
            outcome.figure("CPU", cpu / (seconds / 2) * 100, 5, " %")
            lines = server.log[said:].splitlines()
            warnings = [line for line in lines if "descriptor" in line or "accept" in line]
            outcome.figure("warnings", len(warnings), 1 + seconds // 60)
        began = time.monotonic()
        until(lambda: answer_times(server, 1, "/", address)[0] < 1, "accepting again")
        outcome.figure("accepting resumes after", time.monotonic() - began, 1.0, " s")
    finally:
        server.stop()


def limited(count):
    """As many descriptors as this process may give its children."""
    return min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


@fault(16_000)
def descriptors_exhausted_on_the_public_listener(outcome, count, seconds=20.0):
    exhausted(outcome, limited(max(count, 160)), "public", seconds)


@fault(16_000)
def descriptors_exhausted_on_the_control_listener(outcome, count, seconds=20.0):
    exhausted(outcome, limited(max(count, 160)), "control", seconds)
