"""What a run was: what was killed when, what was acknowledged, what each client saw."""

from collections import Counter


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def longest_silence(publishes):
    """The longest time in which no publish was acknowledged."""
    ends = sorted(publish.end for publish in publishes if publish.is_acknowledged)
    return max((later - earlier for earlier, later in zip(ends, ends[1:])), default=0.0)


def markdown(outcome, title):
    """A run as a page."""
    log, began = outcome.log, outcome.began
    counts = Counter(
        "acknowledged" if publish.is_acknowledged else "refused" if publish.is_refused else "unknown"
        for publish in log.publishes
    )
    repeats = sum(len(publish.attempts) > 1 for publish in log.publishes)
    changes = Counter(change.attempt.outcome for change in log.changes)
    took = [publish.end - publish.attempts[-1].start for publish in log.publishes if publish.is_acknowledged]
    lines = [
        f"## {title}",
        "",
        f"{outcome.ended - began:.0f} s, seed `{outcome.seed}`. "
        + ("**All laws hold.**" if not outcome.broken else f"**{len(outcome.broken)} things are broken.**"),
        "",
        *(f"- {sentence}" for sentence in outcome.broken[:50]),
        *([""] if outcome.broken else []),
        f"- events: {len(log.publishes)}, of which {counts['acknowledged']} were acknowledged, {counts['refused']} refused, "
        f"{counts['unknown']} have an unknown outcome; {repeats} were asked for more than once",
        f"- an answer took {percentile(took, 0.5) * 1e3:.1f} ms (p50), {percentile(took, 0.99) * 1e3:.0f} ms (p99); "
        f"the longest time without any was {longest_silence(log.publishes):.1f} s",
        f"- deliveries that were owed and looked for: {outcome.owed}",
        f"- changes of the graph: {changes['ok']} acknowledged, {changes['unknown']} unknown",
        "",
        "| second | what was done | to |",
        "|---|---|---|",
        *(f"| {fault.time - began:.1f} | {fault.what} | {fault.target} |" for fault in log.faults),
        "",
        "| listener | ids | connections | of which failed | events | notices |",
        "|---|---|---|---|---|---|",
    ]
    for listener in log.listeners:
        received = [what for connection in listener.connections for what in connection.received]
        kinds = Counter(kind for _, kind, _, _ in received)
        notices = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if kind not in ("event", "cursor"))
        failed = sum(connection.opened is None for connection in listener.connections)
        lines.append(
            f"| {listener.name} | {', '.join(listener.ids)} | {len(listener.connections)} | {failed} "
            f"| {kinds['event']} | {notices or 'none'} |"
        )
    return "\n".join(lines) + "\n"


def summary(number, outcome):
    """A run in a line."""
    log = outcome.log
    acknowledged = sum(publish.is_acknowledged for publish in log.publishes)
    faults = Counter(fault.what for fault in log.faults)
    return (
        f"round {number}: {len(log.publishes)} events, {acknowledged} acknowledged, {outcome.owed} deliveries owed, "
        f"{longest_silence(log.publishes):.1f} s without an answer at most; "
        f"{', '.join(f'{count} {what}' for what, count in sorted(faults.items()))}; "
        + (f"{len(outcome.broken)} BROKEN: {outcome.broken[0]}" if outcome.broken else "all laws hold")
    )
