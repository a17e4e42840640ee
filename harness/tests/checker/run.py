"""A run: clients work, a nemesis breaks things, all heals, and the log is checked."""

import itertools
import random
import time
from dataclasses import dataclass, field

from support.wait import until

from .clients import Changer, Filler, Reader, Visitor, Writer
from .laws import Checker
from .log import Log
from .nemesis import Nemesis


# A run that waits for something to happen goes on for so many times its seconds, at most.
LONGEST = 4.0


@dataclass(slots=True)
class Load:
    """How many clients there are, and how busy each is."""

    writers: int = 5
    changers: int = 3
    listeners: int = 10
    subjects: int = 20
    # Mean seconds between two requests of a writer and of a changer.
    write_pause: float = 0.04
    change_pause: float = 0.1
    # The longest time that a restless listener stays.
    stay: float = 4.0


@dataclass(slots=True)
class Outcome:
    """A run and what is wrong with it."""

    seed: str
    log: Log
    broken: list
    # Deliveries that were owed for certain, and looked for.
    owed: int
    began: float
    ended: float
    logs: dict = field(default_factory=dict)


def run(service, promises, seconds, seed, load=None, first=(), is_enough=lambda faults: True):
    """Works on a service that is ready for so long, and until the faults were enough, and checks what was seen. `first` are
    faults of the nemesis that come before all others, in this order."""
    load = load or Load()
    service.run += 1
    prefix = f"r{service.run}"
    chance = random.Random(f"{seed} run")
    subjects = [f"{prefix}:subject {n}" for n in range(load.subjects)]
    # Integer ids and others take different ways through the dictionary.
    ids = [str(service.run * 1000 + n) if n % 2 else f"{prefix}:listener {n}" for n in range(load.listeners)]
    pairs = list(itertools.product(ids, subjects))
    chance.shuffle(pairs)

    readers = []
    for number, of in enumerate(ids):
        # Some are several ids at once, some never leave by themselves.
        more = [ids[number - 1]] if number % 5 == 4 else []
        stay = None if number % 3 == 0 else load.stay
        transport = ("sse", "ndjson")[number % 2]
        readers.append(Reader(service, f"listener-{number}", seed, [of, *more], transport, stay))
    writers = [Writer(service, f"w{n}", seed, subjects, ids, load.write_pause) for n in range(load.writers)]
    changers = [
        Changer(service, f"changer-{n}", seed, pairs[n :: load.changers], load.change_pause)
        for n in range(load.changers)
    ]
    visitor = Visitor(service, "visitor", seed, readers)
    others = [visitor, Filler(service, "filler", seed)] if service.engine else [visitor]
    nemesis = Nemesis(service, seed, seconds=seconds)
    nemesis.deck = [getattr(nemesis, fault) for fault in reversed(first)]
    began = time.monotonic()
    for client in [*readers, *changers, *writers, *others]:
        client.start()
    nemesis.start()
    broken = []
    try:
        nemesis.ending.wait(seconds)
        while nemesis.is_alive() and not is_enough(nemesis.faults) and time.monotonic() < began + LONGEST * seconds:
            nemesis.ending.wait(0.5)
        nemesis.finish()
        service.until_ready()
        for client in [*writers, *changers, *others]:
            client.finish()
        marks = Writer(service, "mark", seed, [], [], 0.0)
        broken += settle(service, marks, readers)
    finally:
        for client in [*writers, *changers, *readers, *others]:
            client.ending.set()
    for reader in readers:
        reader.finish()
    log = Log(
        publishes=[publish for writer in [*writers, marks] for publish in writer.publishes],
        changes=[change for changer in changers for change in changer.changes],
        listeners=[reader.listener for reader in readers],
        faults=nemesis.faults,
        strangers=visitor.strangers,
    )
    ended = time.monotonic()
    checker = Checker(log, promises)
    broken += checker.check()
    return Outcome(seed, log, broken, checker.owed, began, ended, service.logs() if broken else {})


def settle(service, marks, readers):
    """Sends each listener a last event and waits for it: then it has all that it will get."""
    last = {}
    for reader in readers:
        marks.subjects, marks.ids = [reader.listener.ids[0]], [reader.listener.ids[0]]
        until(lambda: (marks.act(), marks.publishes[-1].is_acknowledged)[1], "an event is acknowledged")
        last[reader] = marks.publishes[-1].event
    broken = []
    for reader, event in last.items():
        try:
            until(lambda: event in reader.has or reader.error, f"{reader.name} gets {event}")
        except AssertionError as failure:
            broken.append(f"settled: {failure}; it is at {reader.cursor}")
    return broken
