"""The subscriptions of a list of friendships in SQLite: a table with an index for each direction.

Usage: sqlite.py FILE LIST
"""

import os
import resource
import sqlite3
import sys
import time


def edges(path):
    with open(path) as lines:
        for line in lines:
            a, b = map(int, line.split())
            yield a, b
            yield b, a


def main(file, path):
    start = time.monotonic()
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(
        "CREATE TABLE subscription (subscriber INTEGER, subject INTEGER,"
        " PRIMARY KEY (subscriber, subject)) WITHOUT ROWID"
    )
    with database:
        database.executemany("INSERT OR IGNORE INTO subscription VALUES (?, ?)", edges(path))
    # After the rows: the way that is said to be fastest.
    database.execute("CREATE INDEX back ON subscription (subject, subscriber)")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spent = time.monotonic() - start
    count = database.execute("SELECT count(*) FROM subscription").fetchone()[0]
    database.close()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    size = os.path.getsize(file)
    print(f"sqlite edges: {count}")
    print(f"sqlite load: {spent:.3f} s")
    print(f"sqlite load, user and system time: {usage.ru_utime + usage.ru_stime:.3f} s")
    print(f"sqlite peak memory: {usage.ru_maxrss / 1000:.3f} MB")
    print(f"sqlite file: {size / 1e6:.3f} MB")
    print(f"sqlite file, each edge: {size / count:.3f} bytes")


main(*sys.argv[1:])
