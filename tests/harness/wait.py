"""Waiting for conditions, never for luck."""

import time

# Generous: a loaded machine of two cores. A test that passes does not wait for it.
PATIENCE = 15.0


def until(condition, what, patience=PATIENCE, pause=0.01):
    """Asks until the condition holds and returns what it gave; fails with `what` after a while."""
    deadline = time.monotonic() + patience
    while True:
        last = condition()
        if last:
            return last
        if time.monotonic() >= deadline:
            raise AssertionError(f"after {patience} s: not {what} (last: {last!r})")
        time.sleep(pause)
