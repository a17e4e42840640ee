"""The checker of the cluster: it is quiet about a log that is right, and finds each lie in one that is not; then a node is broken."""

import os
from collections import Counter

import pytest

from checker.laws import CLUSTER, SINGLE, Checker
from checker.log import Fault, Stranger
from checker.model import EPOCH, Model
from checker.report import markdown
from checker.run import run
from checker.service import Single

SEED = os.environ.get("CHECKER_SEED", "2026")


def laws_broken(log, promises=CLUSTER):
    return {sentence.partition(":")[0] for sentence in Checker(log, promises).check()}


@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_is_right_passes_and_much_is_asked_of_it(seed):
    checker = Checker(Model(seed).log, CLUSTER)
    assert checker.check() == []
    assert checker.owed > 500
    assert len(checker.received) > 500


class Lies:
    """Ways in which a service may have failed, each put into a log that was right."""

    def __init__(self, log):
        self.log = log
        self.published = {publish.event: publish for publish in log.publishes}

    def entries(self, kind="event", minimum=20):
        """Places of what was received, beyond the beginning: (connection, index)."""
        for listener in self.log.listeners:
            for connection in listener.connections:
                for index, what in enumerate(connection.received):
                    if what[1] == kind and index + 1 < len(connection.received) and what[0] > minimum:
                        yield connection, index

    def some(self, condition=lambda connection, index: True):
        """A place from the middle of the log."""
        places = [place for place in self.entries() if condition(*place)]
        assert places
        return places[len(places) // 2]

    def acknowledged(self, condition=lambda publish: True):
        events = [each for each in self.log.publishes if each.is_acknowledged and each.receipt and condition(each)]
        assert events
        return events[len(events) // 2]

    # What listeners get

    def an_event_is_left_out(self):
        connection, index = self.some(lambda c, i: self.published[c.received[i][3]].is_acknowledged)
        del connection.received[index]

    def an_acknowledged_event_comes_to_nobody(self):
        connection, index = self.some(lambda c, i: self.published[c.received[i][3]].is_acknowledged)
        event = connection.received[index][3]
        for other, place in reversed(list(self.entries(minimum=0))):
            if other.received[place][3] == event:
                del other.received[place]

    def one_node_leaves_out_an_event_without_an_answer(self):
        times = Counter(c.received[i][3] for c, i in self.entries(minimum=0))

        def is_shared(connection, index):
            event = connection.received[index][3]
            return not self.published[event].is_acknowledged and times[event] > 1

        connection, index = self.some(is_shared)
        del connection.received[index]

    def an_event_comes_twice(self):
        connection, index = self.some()
        connection.received.insert(index + 1, connection.received[index])

    def a_replay_begins_one_event_too_early(self):
        listener = self.log.listeners[2]
        before, after = next(
            pair
            for pair in zip(listener.connections, listener.connections[1:])
            if pair[0].received[-1][1] == "event"
        )
        after.received.insert(0, before.received[-1])

    def a_replay_begins_behind_an_event(self):
        connection = next(
            connection
            for listener in self.log.listeners
            for connection in listener.connections
            if connection.cursor and connection.received[0][1] == "event"
        )
        del connection.received[0]

    def two_events_of_a_subject_change_places(self):
        def is_pair(connection, index):
            first, second = connection.received[index : index + 2]
            same = second[1] == "event" and self.published[first[3]].subject == self.published[second[3]].subject
            return same

        connection, index = self.some(is_pair)
        received = connection.received
        received[index], received[index + 1] = received[index + 1], received[index]

    def a_node_gives_an_event_another_position(self):
        connection, index = self.some()
        time, kind, identifier, event = connection.received[index]
        connection.received[index] = (time, kind, f"{identifier}0000", event)

    def two_events_have_one_position(self):
        connection, index = self.some(lambda c, i: self.published[c.received[i][3]].is_acknowledged)
        identifier = connection.received[index][2]
        other = self.acknowledged(lambda publish: f"{EPOCH}-{publish.position[1]}" != identifier)
        time, kind, _, event = connection.received[index]
        connection.received[index] = (time, kind, f"{EPOCH}-{other.position[1]}", event)

    def an_event_comes_to_one_who_does_not_follow(self):
        connection, index = self.some()
        publish = self.published[connection.received[index][3]]
        # Nobody has followed it: all changes about it are struck.
        self.log.changes = [change for change in self.log.changes if change.subject != publish.subject]

    def an_event_from_before_a_subscription_comes_with_a_replay(self):
        listener, first = next(
            (listener, change)
            for listener in self.log.listeners
            for change in self.log.changes
            if change.subscriber == listener.name and change.follows and change.attempt.start > 200
            and not any(
                other.subscriber == listener.name and other.subject == change.subject
                and other.attempt.start < change.attempt.start
                for other in self.log.changes
            )
        )
        publish = next(
            each for each in self.log.publishes if each.subject == first.subject and each.is_acknowledged
        )
        connection = listener.connections[0]
        identifier = f"{EPOCH}-{publish.position[1]}"
        connection.received.insert(0, (publish.end, "event", identifier, publish.event))
        connection.head = f"{EPOCH}-0"

    def a_sent_event_comes_to_a_follower(self):
        connection, index = self.some(lambda c, i: not self.published[c.received[i][3]].is_sent)
        self.published[connection.received[index][3]].is_sent = True

    def an_event_comes_that_was_never_published(self):
        connection, index = self.some()
        time, kind, identifier, _ = connection.received[index]
        connection.received[index] = (time, kind, identifier, "w-999999")

    def an_event_that_was_refused_comes(self):
        connection, index = self.some(lambda c, i: not self.published[c.received[i][3]].is_acknowledged)
        self.published[connection.received[index][3]].attempts[-1].outcome = "refused"

    def a_repeat_with_a_key_is_a_second_event(self):
        publish = self.acknowledged(lambda each: not each.is_sent and each.receipt["written"] > 0)
        publish.attempts.insert(0, self.log.publishes[0].attempts[0])
        publish.attempts[0].outcome = "unknown"
        for connection, index in list(self.entries(minimum=0)):
            time, kind, identifier, event = connection.received[index]
            if event == publish.event:
                connection.received.insert(index + 1, (time, kind, f"{identifier}1", event))

    def a_reset_is_sent(self):
        connection, index = self.some()
        time = connection.received[index][0]
        connection.received.insert(index, (time, "reset", None, '{"reason":"expired"}'))

    def a_cursor_of_another_epoch_is_taken(self):
        connection, index = self.some()
        for place in range(index, len(connection.received)):
            time, kind, identifier, event = connection.received[place]
            connection.received[place] = (time, kind, identifier.replace(EPOCH, "zzzz"), event)

    def a_cursor_of_another_log_is_taken_for_one_of_ours(self):
        self.log.strangers.append(Stranger("n1", "elsewhere-7", 1.0, 1.5, ["event"], True))

    # What is answered

    def an_answer_comes_before_what_was_sent_later(self):
        first = self.acknowledged()
        first.position = (EPOCH, first.position[1] + 50)

    def a_receipt_leaves_out_a_node(self):
        publish = self.acknowledged(lambda each: each.receipt["written"] > 1)
        publish.receipt["written"] -= 1

    def a_receipt_counts_a_node_twice(self):
        publish = self.acknowledged(lambda each: each.is_sent and each.receipt["written"] == 1)
        publish.receipt["written"] += 20

    def a_receipt_has_the_graph_of_another_position(self):
        self.acknowledged(lambda each: not each.is_sent).receipt["subscribers"] += 1

    def a_receipt_has_more_online_than_there_are(self):
        receipt = self.acknowledged().receipt
        receipt["online"] = receipt["subscribers"] + 1

    def a_change_is_said_to_be_none(self):
        change = next(each for each in self.log.changes if each.changed)
        change.changed = 0

    def a_follow_is_answered_and_does_not_count(self):
        """The answer said that it is followed, and nothing comes."""
        change = next(each for each in reversed(self.log.changes[:-10]) if each.follows and each.changed)
        listener = next(each for each in self.log.listeners if each.name == change.subscriber)
        for connection in listener.connections:
            connection.received = [
                what
                for what in connection.received
                if what[0] < change.attempt.start or what[1] != "event"
                or self.published[what[3]].subject != change.subject
            ]


# By the name of the lie: laws of which at least one must be found broken.
FOUND_BY = {
    "an_event_is_left_out": {"missing"},
    "an_acknowledged_event_comes_to_nobody": {"missing"},
    "one_node_leaves_out_an_event_without_an_answer": {"missing"},
    "an_event_comes_twice": {"twice"},
    "a_replay_begins_one_event_too_early": {"twice"},
    "a_replay_begins_behind_an_event": {"missing"},
    "two_events_of_a_subject_change_places": {"order"},
    "a_node_gives_an_event_another_position": {"position"},
    "two_events_have_one_position": {"position"},
    "an_event_comes_to_one_who_does_not_follow": {"owed"},
    "an_event_from_before_a_subscription_comes_with_a_replay": {"owed"},
    "a_sent_event_comes_to_a_follower": {"owed"},
    "an_event_comes_that_was_never_published": {"unknown"},
    "an_event_that_was_refused_comes": {"refused"},
    "a_repeat_with_a_key_is_a_second_event": {"twice", "position"},
    "a_reset_is_sent": {"notice"},
    "a_cursor_of_another_epoch_is_taken": {"epoch"},
    "a_cursor_of_another_log_is_taken_for_one_of_ours": {"epoch"},
    "an_answer_comes_before_what_was_sent_later": {"real time"},
    "a_receipt_leaves_out_a_node": {"receipt"},
    "a_receipt_counts_a_node_twice": {"receipt"},
    "a_receipt_has_the_graph_of_another_position": {"receipt"},
    "a_receipt_has_more_online_than_there_are": {"receipt"},
    "a_change_is_said_to_be_none": {"change"},
    "a_follow_is_answered_and_does_not_count": {"missing"},
}


def test_every_lie_is_listed():
    helpers = {"entries", "some", "acknowledged"}
    assert {name for name in vars(Lies) if not name.startswith("_")} - helpers == set(FOUND_BY)


@pytest.mark.parametrize("lie", FOUND_BY)
@pytest.mark.parametrize("seed", range(3))
def test_the_checker_finds(lie, seed):
    log = Model(seed).log
    getattr(Lies(log), lie)()
    assert laws_broken(log) & FOUND_BY[lie]


@pytest.mark.parametrize("what", ["kill node", "restart node", "replace node"])
def test_a_node_that_was_started_again_may_have_forgotten_how_old_a_subscription_is(what):
    log = Model(0).log
    Lies(log).an_event_from_before_a_subscription_comes_with_a_replay()
    assert "owed" in laws_broken(log)
    # It was away until all subscriptions had been made, and knows of none when it was.
    log.faults = [Fault(0.0, what, "n1"), Fault(log.changes[-1].attempt.end, "start node", "n1")]
    assert "owed" not in laws_broken(log)
    log.faults[0].what = "pause node"
    assert "owed" in laws_broken(log)


def test_a_node_that_is_killed_and_started_again_keeps_the_laws():
    with Single() as service:
        outcome = run(service, SINGLE, 12.0, SEED)
        report = markdown(outcome, "one node")
        assert not outcome.broken, report + str(outcome.logs)
        assert outcome.owed > 300, report
        assert any(fault.what == "kill node" for fault in outcome.log.faults), report
