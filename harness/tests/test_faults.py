"""The faults of `faults/` that are quick, at a small size: `make faults` runs all of them at full size."""

import os

import pytest

from faults import descriptors, endings, heads, memory, peers, readers, stops  # noqa: F401 (they register faults)
from faults.fault import run

# A debug build on a loaded machine is slower than any limit of `make faults`.
SLOW = (
    *("connect p99", "slowest", "CPU", "accepting resumes"),
    *("resets a second", "p99 of healthy readers", "caught up after"),
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace or a control group needs root")


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


@needs_root
def test_peers_that_vanish_are_found():
    flags = ("--user-timeout", "2s", "--heartbeat", "1s")
    passes(run("vanished_peers", 0.003, limit=10.0, flags=flags))


def test_readers_that_stop_are_cut_and_those_that_read_again_catch_up():
    """The kernel would find them too, and later."""
    passes(run("stopped_readers", 0.02, rate=500, seconds=2.0, limit=16.0, flags=("--user-timeout", "60s")))


@pytest.mark.parametrize("listener", ["public", "control"])
def test_publishers_are_served_while_strangers_have_all_descriptors(listener):
    passes(run(f"descriptors_exhausted_on_the_{listener}_listener", 0.02, seconds=3.0))


# Little memory, so that an attack reaches the bounds.
SMALL = ("--buffer-bytes", "4MiB", "--history-bytes", "1MiB", "--backlog-bytes", "1MiB", "--slow", "close")


# In a control group the kernel's sockets count, those of attackers too.
ROOM = [
    pytest.param("refused", 4000, 32 << 20, id="refused"),
    pytest.param("capped", 200, 64 << 20, id="capped", marks=needs_root),
]


@pytest.mark.parametrize(("how", "attackers", "room"), ROOM)
def test_an_attack_where_memory_is_short_costs_nobody_a_session(how, attackers, room):
    passes(run(f"memory_{how}", 0.01, attackers=attackers, room=room, seconds=3.0, flags=SMALL))


def test_a_drain_ends_in_time():
    passes(run("drained", 0.003, limit=12.0, flags=("--drain-timeout", "20s")))
