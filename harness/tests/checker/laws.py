"""What must hold of a log, whatever was killed. Each law adds a sentence for each thing that breaks it."""

from collections import defaultdict
from dataclasses import dataclass

from .coverage import Heads, stretches_of
from .graph import Graph
from .log import NEVER

# Seconds for which a node may count a session whose client has gone: it was paused, or has not yet read the end.
LINGER = 15.0


@dataclass(frozen=True)
class Promises:
    """What a service promises beyond what all do."""

    # An event that any client has seen reaches all: it is in a log that survives.
    seen_is_logged: bool = True
    # No client is ever told that something is missing.
    no_resets: bool = True
    # A subscription is younger than an event also for a node that was started since.
    ages_survive: bool = True
    # Repeats with a key are told from new events by any node, also by one that was started since.
    keys_survive: bool = True


# A node that was started again remembers no more than a single one how old subscriptions are.
CLUSTER = Promises(ages_survive=False)
# A single node with a data directory and a history on disk.
SINGLE = Promises(seen_is_logged=False, no_resets=False, ages_survive=False, keys_survive=False)


class Checker:
    """A log, put in order for the laws."""

    def __init__(self, log, promises):
        self.log, self.promises = log, promises
        self.broken = []
        # How many deliveries were owed for certain: laws that are asked nothing hold always.
        self.owed = 0
        self.graph = Graph(log.changes)
        self.published = {publish.event: publish for publish in log.publishes}
        self.twice, self.notices = [], []
        heads = Heads(log.publishes)
        self.stretches = [
            stretch for listener in log.listeners for stretch in stretches_of(listener, heads, self.twice, self.notices)
        ]
        self.received = [received for stretch in self.stretches for received in stretch.events]
        self.first_seen = {}
        self.positions = defaultdict(set)
        for received in self.received:
            self.positions[received.event].add(received.position)
            earlier = self.first_seen.get(received.event, received.time)
            self.first_seen[received.event] = min(earlier, received.time)
        for publish in log.publishes:
            if publish.position:
                self.positions[publish.event].add(publish.position)
            elif positions := self.positions.get(publish.event):
                # Not acknowledged, but in the log, as it was seen.
                publish.position = min(positions)

    def check(self):
        """Every sentence about what is broken; none if all is well."""
        for law in LAWS:
            law(self)
        return self.broken

    def fail(self, law, sentence):
        self.broken.append(f"{law}: {sentence}")

    def end_of(self, publish):
        """The latest time at which the event can have got its position."""
        return min(publish.end, self.first_seen.get(publish.event, publish.end))

    def possible(self, subscriber, publish):
        """Whether an id may have followed, when the event got its position: a set of booleans."""
        if publish.is_sent:
            return {subscriber == publish.subject}
        return self.graph.during(subscriber, publish.subject, publish.start, self.end_of(publish))


def every_event_was_published(checker):
    for received in checker.received:
        publish = checker.published.get(received.event)
        if publish is None:
            checker.fail("unknown", f"{received.event!r} at {received.position} was published by no writer")
        elif publish.is_refused:
            checker.fail("refused", f"{received.event!r} was refused, and came at {received.position}")


def an_event_has_one_position(checker):
    events = {}
    for event, positions in checker.positions.items():
        if len(positions) > 1 and not is_excused_repeat(checker, event):
            checker.fail("position", f"{event!r} is at {sorted(positions)}")
        for position in positions:
            other = events.setdefault(position, event)
            if other != event:
                checker.fail("position", f"{other!r} and {event!r} are both at {position}")


def is_excused_repeat(checker, event):
    """Whether the event was sent again to a node that cannot know its key any more."""
    publish = checker.published.get(event)
    return publish is not None and len(publish.attempts) > 1 and not checker.promises.keys_survive


def no_event_comes_twice(checker):
    for name, node, time, identifier, event in checker.twice:
        checker.fail("twice", f"{name} got {event!r} ({identifier}) again at {time:.3f} from {node}")
    for stretch in checker.stretches:
        seen = {}
        for received in stretch.events:
            other = seen.setdefault(received.event, received)
            if other is not received and not is_excused_repeat(checker, received.event):
                checker.fail(
                    "twice",
                    f"{stretch.listener.name} got {received.event!r} at {other.position} and {received.position}",
                )


def a_subject_has_one_order(checker):
    for stretch in checker.stretches:
        last = {}
        for received in stretch.events:
            publish = checker.published.get(received.event)
            if publish is None:
                continue
            before = last.get(publish.subject)
            if before and before.position[0] == received.position[0] and before.position[1] > received.position[1]:
                checker.fail(
                    "order",
                    f"{stretch.listener.name} got {received.event!r} {received.position} of {publish.subject} "
                    f"behind {before.event!r} {before.position}",
                )
            last[publish.subject] = received


def an_answer_comes_before_what_follows_it(checker):
    """An event that was acknowledged before another one was sent has the lower position."""
    by_epoch = defaultdict(list)
    for publish in checker.log.publishes:
        if publish.is_acknowledged and publish.position:
            by_epoch[publish.position[0]].append(publish)
    for publishes in by_epoch.values():
        latest = None
        for publish in sorted(publishes, key=lambda each: each.position[1]):
            if latest and publish.end < latest.start:
                checker.fail(
                    "real time",
                    f"{publish.event!r} {publish.position} was acknowledged before {latest.event!r} "
                    f"{latest.position} was sent",
                )
            if latest is None or publish.start > latest.start:
                latest = publish


def nothing_acknowledged_is_missing(checker):
    by_subject = defaultdict(list)
    for publish in checker.log.publishes:
        is_due = publish.is_acknowledged or checker.promises.seen_is_logged
        if is_due and publish.position:
            by_subject[publish.subject].append(publish)
    subjects_of = defaultdict(set)
    for subscriber, subject in checker.graph.pairs:
        subjects_of[subscriber].add(subject)
    for stretch in checker.stretches:
        has = {received.event for received in stretch.events}
        ids = stretch.listener.ids
        for subject in set(ids).union(*(subjects_of[of] for of in ids)):
            for publish in by_subject[subject]:
                if not stretch.covers(publish.position) or not is_owed(checker, stretch, publish):
                    continue
                checker.owed += 1
                if publish.event not in has:
                    checker.fail(
                        "missing",
                        f"{stretch.listener.name} has not got {publish.event!r} {publish.position} about {subject}, "
                        f"and was told of everything from {stretch.first} to {stretch.last}",
                    )


def is_owed(checker, stretch, publish):
    """Whether a listener must have got the event, by the graph then and since."""
    at_once = stretch.is_told_at_once(publish)
    for of in stretch.listener.ids:
        if checker.possible(of, publish) != {True}:
            continue
        # Who missed it gets it by the graph as it is when it comes back.
        until = stretch.caught_up(publish.position[1])
        if at_once or not checker.graph.is_changed(of, publish.subject, publish.start, until):
            return True
    return False


def every_event_was_owed(checker):
    restarts = restarts_of(checker.log.faults)
    for stretch in checker.stretches:
        for received in stretch.events:
            publish = checker.published.get(received.event)
            if publish is None or any(True in checker.possible(of, publish) for of in stretch.listener.ids):
                continue
            if not checker.promises.ages_survive and any(
                publish.start < up and down <= received.time and True in checker.graph.during(of, publish.subject, down, up)
                for of in stretch.listener.ids
                for down, up in restarts
                if not publish.is_sent
            ):
                continue
            checker.fail(
                "owed",
                f"{stretch.listener.name} got {received.event!r} {received.position} about {publish.subject}, "
                "and did not follow it then",
            )


def restarts_of(faults):
    """When nodes were taken down, and when they were up again: what was followed by then may count as old."""
    restarts = []
    for number, fault in enumerate(faults):
        if fault.what in ("kill node", "restart node", "replace node"):
            later = (each for each in faults[number + 1 :] if each.target == fault.target)
            restarts.append((fault.time, next((each.time for each in later), NEVER)))
    return restarts


def a_change_tells_what_the_graph_was(checker):
    for (subscriber, subject), changes in checker.graph.pairs.items():
        is_followed = False
        for change in changes:
            if change.attempt.outcome == "unknown":
                break
            if change.attempt.outcome == "refused":
                continue
            if change.changed is not None and change.changed != (change.follows != is_followed):
                checker.fail(
                    "change",
                    f"{subscriber} -> {subject} was {is_followed}, was set to {change.follows}, "
                    f"and the answer says that {change.changed} changed",
                )
            is_followed = change.follows


def receipts_add_up(checker):
    live = defaultdict(int)
    for stretch in checker.stretches:
        opens = {id(open.connection): open for open in stretch.connections}
        for received in stretch.events:
            publish = checker.published.get(received.event)
            live_at = opens[id(received.connection)].live_at
            if publish and live_at is not None and live_at < publish.start:
                live[received.event] += 1
    nodes = max((publish.receipt.get("nodes", 1) for publish in checker.log.publishes if publish.receipt), default=1)
    for publish in checker.log.publishes:
        receipt = publish.receipt
        if not receipt or not publish.is_acknowledged:
            continue
        followers = [] if publish.is_sent else checker.graph.subscribers_of.get(publish.subject, [])
        possible = [checker.possible(of, publish) for of in followers]
        low = 1 + sum(each == {True} for each in possible)
        high = 1 + sum(True in each for each in possible)
        subscribers, online = receipt["subscribers"], receipt["online"]
        told = receipt["written"] + receipt["queued"]
        if not low <= subscribers <= high:
            checker.fail("receipt", f"{publish.event!r} had {low} to {high} subscribers, and its receipt says {receipt}")
        # An id counts once at each node that has a session of it.
        if online > subscribers * receipt.get("nodes", 1):
            checker.fail("receipt", f"{publish.event!r}: more are online than there are: {receipt}")
        # A node that was declared gone by mistake is not counted until it has joined again.
        is_whole = not receipt.get("missing") and receipt.get("nodes", 1) == nodes
        if told < live[publish.event] and is_whole:
            checker.fail(
                "receipt", f"{publish.event!r} came to {live[publish.event]} at once, and its receipt says {receipt}"
            )
        most = sessions_possible(checker, publish)
        if told + receipt["shed"] > most:
            checker.fail("receipt", f"{publish.event!r} can have met {most} sessions, and its receipt says {receipt}")


def sessions_possible(checker, publish):
    """How many sessions there can have been that the event concerned."""
    count = 0
    for listener in checker.log.listeners:
        if any(True in checker.possible(of, publish) for of in listener.ids):
            count += sum(
                connection.start <= publish.end and connection.end + LINGER >= publish.start
                for connection in listener.connections
            )
    for stranger in checker.log.strangers:
        if stranger.start <= publish.end and stranger.end + LINGER >= publish.start:
            count += any(True in checker.possible(of, publish) for of in stranger.ids)
    return count


def a_cursor_stays_in_its_epoch(checker):
    for stretch in checker.stretches:
        epochs = {position[0] for position in (stretch.first, stretch.last) if position}
        epochs |= {received.position[0] for received in stretch.events}
        if len(epochs) > 1:
            checker.fail("epoch", f"{stretch.listener.name} went from one of {sorted(epochs)} to another without a reset")


def a_cursor_of_another_log_is_told_to_begin_anew(checker):
    for stranger in checker.log.strangers:
        # A node that was killed or paused meanwhile has told nothing.
        is_disturbed = any(stranger.opened - LINGER < fault.time < stranger.end for fault in checker.log.faults)
        told = stranger.received[:1]
        if told != ["reset"] and (told or stranger.is_whole and not is_disturbed):
            checker.fail("epoch", f"{stranger.node} took {stranger.cursor} for one of its own: {told or 'nothing came'}")


def nobody_is_told_that_something_is_missing(checker):
    for name, node, time, kind, value in checker.notices:
        if checker.promises.no_resets or kind == "reset" and '"unknown"' in str(value):
            checker.fail("notice", f"{name} was told {kind} {value} by {node} at {time:.3f}")


LAWS = [
    every_event_was_published,
    an_event_has_one_position,
    no_event_comes_twice,
    a_subject_has_one_order,
    an_answer_comes_before_what_follows_it,
    nothing_acknowledged_is_missing,
    every_event_was_owed,
    a_change_tells_what_the_graph_was,
    receipts_add_up,
    a_cursor_stays_in_its_epoch,
    a_cursor_of_another_log_is_told_to_begin_anew,
    nobody_is_told_that_something_is_missing,
]
