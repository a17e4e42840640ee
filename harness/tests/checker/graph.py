"""The graph as its changers know it: what it may have been at any time."""

from collections import defaultdict


class Graph:
    """Subscriptions over time, of what was answered. Between request and answer a subscription may be either.

    After an unknown outcome a pair may be either for ever: the request may still be on its way."""

    def __init__(self, changes):
        pairs = defaultdict(list)
        for change in changes:
            pairs[change.subscriber, change.subject].append(change)
        self.pairs = dict(pairs)
        self.subscribers_of = defaultdict(list)
        for subscriber, subject in self.pairs:
            self.subscribers_of[subject].append(subscriber)

    def during(self, subscriber, subject, start, end):
        """What it may have been at one moment between two times: a set of booleans."""
        if subscriber == subject:
            return {True}
        possible = {False}
        for change in self.pairs.get((subscriber, subject), ()):
            attempt = change.attempt
            if attempt.start > end:
                break
            if attempt.outcome == "refused":
                continue
            if attempt.outcome == "ok" and attempt.end < start:
                possible = {change.follows}
            else:
                possible = possible | {change.follows}
        return possible

    def is_changed(self, subscriber, subject, start, end):
        """Whether a request to take the subscription back may have taken effect between two times."""
        for change in self.pairs.get((subscriber, subject), ()):
            attempt = change.attempt
            if change.follows or attempt.outcome == "refused" or attempt.start > end:
                continue
            if attempt.outcome == "unknown" or attempt.end >= start:
                return True
        return False
