"""The harness's own judgement of time: what is slow more often than not does not pass."""

import pytest

from support.wait import in_time, punctually


def trials(*took):
    """A trial that takes so long each time."""
    took = iter(took)
    return lambda: next(took)


@pytest.mark.parametrize("took", [(0, 0, 0), (9, 0, 9, 0, 0), (0, 9, 9, 0, 0), (9, 9, 0, 0, 0)])
def test_most_trials_have_to_be_in_time(took):
    in_time(trials(*took), 1.0)


@pytest.mark.parametrize("took", [(9, 9, 9), (0, 9, 9, 9), (0, 0, 9, 9, 9), (9, 9, 0, 9)])
def test_a_bug_that_is_quick_now_and_then_does_not_pass(took):
    with pytest.raises(AssertionError, match="in few of them"):
        in_time(trials(*took), 1.0)


def test_a_trial_that_was_not_held_up_counts_whatever_it_says():
    def fails(step):
        step()
        raise AssertionError("it does not hold")

    with pytest.raises(AssertionError, match="it does not hold"):
        punctually(fails, 60.0)


def test_a_trial_that_is_always_held_up_proves_nothing():
    def held_up(step):
        step.last -= 100.0
        step()

    with pytest.raises(AssertionError, match="held the test up"):
        punctually(held_up, 1.0, tries=3)
