"""Waiting for conditions, never for luck."""

import time

# Generous: a loaded machine of two cores. A test that passes does not wait for it.
PATIENCE = 60.0

# What happens at once or after a second, and would take ten seconds and more if it waited for a default.
PROMPT = 8.0


def until(condition, what, patience=PATIENCE, pause=0.01):
    """Asks until the condition holds and returns what it gave; fails with `what` after a while.

    What takes seconds is asked for twenty times a second: questions cost the machine more than the wait."""
    started = time.monotonic()
    while True:
        last = condition()
        if last:
            return last
        waited = time.monotonic() - started
        if waited >= patience:
            raise AssertionError(f"after {patience} s: not {what} (last: {last!r})")
        time.sleep(max(pause, min(waited / 20, 0.05)))


def in_time(trial, seconds, tries=5):
    """Runs a trial, which returns how long something took, until most of the tries were short enough.

    A loaded machine may delay some of them; a bug that is quick now and then does not pass."""
    took = []
    most = tries // 2 + 1
    while sum(each < seconds for each in took) < most:
        late = [each for each in took if each >= seconds]
        assert len(late) < most, f"it took {took} s, and less than {seconds} s in few of them"
        took.append(trial())


class Steps:
    """The pace of a trial: told of each step, it knows the longest pause between two of them."""

    def __init__(self):
        self.last = time.monotonic()
        self.longest = 0.0

    def __call__(self):
        now = time.monotonic()
        self.longest = max(self.longest, now - self.last)
        self.last = now


def punctually(trial, seconds, tries=10):
    """Runs a trial that holds only if the test itself makes each step within so many seconds.

    The trial is given its `Steps`. One in which the machine has held the test up proves nothing, and is
    run again."""
    for _ in range(tries):
        steps = Steps()
        try:
            result = trial(steps)
        except Exception:
            steps()
            if steps.longest <= seconds:
                raise
        else:
            if steps.longest <= seconds:
                return result
    raise AssertionError(f"this machine held the test up for {seconds} s in each of {tries} trials")
