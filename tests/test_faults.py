"""The faults of `faults/` that are quick, at a small size: `make faults` runs all of them at full size."""

import os

import pytest

from faults import descriptors, heads, peers, stops  # noqa: F401 (they register faults)
from faults.fault import run

# A debug build on a loaded machine is slower than any limit of `make faults`.
SLOW = ("connect p99", "slowest", "CPU", "accepting resumes", "resets a second")


def passes(outcome):
    misses = [miss for miss in outcome.misses if not miss.startswith(SLOW)]
    assert not misses, (misses, outcome.figures)


@pytest.mark.parametrize("name", ["half_sent_heads", "half_sent_large_heads"])
def test_half_sent_heads_are_reaped(name):
    passes(run(name, 0.005, head_timeout=2.0))


def test_a_server_that_was_stopped_answers_what_came_meanwhile():
    """The stop is longer than the time for a head, and than the silence of a session."""
    flags = ("--head-timeout", "2s", "--heartbeat", "1s", "--stall-timeout", "2s", "--user-timeout", "3s")
    passes(run("stopped_for_12_seconds", 0.01, seconds=5.0, flags=flags))


def test_a_server_that_was_stopped_before_answers_what_came_meanwhile():
    """Four hundred requests come while it is stopped again: one wait reports 256."""
    flags = ("--head-timeout", "2s", "--heartbeat", "1s", "--workers", "1")
    passes(run("stopped_twice", 0.04, seconds=5.0, flags=flags))


def test_a_clock_that_jumps_ends_no_session():
    passes(run("clock_steps", 0.01, watched=8.4))


def test_resets_leave_nothing_behind():
    passes(run("resets", 0.05))


def test_comings_and_goings_leave_nothing_behind():
    passes(run("comings_and_goings", 0.001, batch=250))


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_peers_that_vanish_are_found():
    flags = ("--user-timeout", "2s", "--heartbeat", "1s")
    passes(run("vanished_peers", 0.003, limit=10.0, flags=flags))
