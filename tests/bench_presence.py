"""Measures presence: tests/.venv/bin/python tests/bench_presence.py --users 1000000

`ENCKE` names the binary, and `encke-bench` must lie beside it. Users hold streams with `?presence=1` and have thirty
friends. Visitors, who have thirty friends too, come and go: each comes once, so that each coming and each going is told.
The same visits are made with a server that keeps no presence; the difference in processor time is what presence
costs. At last all users reconnect at once, which must cause no notice. What is printed is a section of a report in Markdown.
"""

import argparse
import asyncio
import contextlib
import os
import platform
import random
import subprocess
import time

from harness.program import BINARY, ROOT
from harness.server import Server
from harness.wait import until

DELAY = 10


def graph(users, visitors, friends, seed=1):
    """Lines `subscriber subject`: users and visitors follow friends at random, who follow them."""
    chosen = random.Random(seed)
    for visitor in range(users + 1, users + visitors + 1):
        for friend in chosen.sample(range(1, users + 1), min(friends, users)):
            yield f"{friend} {visitor}\n{visitor} {friend}\n"
    for user in range(1, users + 1):
        for _ in range(friends // 2):
            friend = chosen.randint(1, users)
            yield f"{user} {friend}\n{friend} {user}\n"


def load(server, lines):
    def pieces():
        piece = []
        for line in lines:
            piece.append(line)
            if len(piece) == 20_000:
                yield "".join(piece).encode()
                piece.clear()
        yield "".join(piece).encode()

    answer = server.api.post(
        "/v1/subscriptions", content=pieces(), headers={"Content-Type": "text/plain"}, timeout=None
    )
    assert answer.is_success, answer.text


@contextlib.contextmanager
def clients(server, users, query, threads):
    """Users with streams, held by a program of their own. Yields it: its end is their end."""
    bench = os.path.join(os.path.dirname(BINARY), "encke-bench")
    url = f"{server.public_url}/events/{{n}}{query}"
    command = [bench, "clients", url, "--first", "1", "--connections", str(users), "--threads", str(threads)]
    held = subprocess.Popen([*command, "--private-fds"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        until(lambda: server.stats()["online"] >= users, "all users are there", patience=600)
        yield held
    finally:
        held.kill()
        held.wait()
        held.stdin.close()


async def visits(server, first, rate, seconds, stay=5.0):
    """Visitors that come at a rate and stay for a while: as many go as come, after the first `stay`."""
    host, port = server.public

    async def visit(number):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"GET /stream/{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(stay)
        writer.close()

    begun, tasks = time.monotonic(), []
    for nth in range(int(rate * seconds)):
        await asyncio.sleep(max(0, begun + nth / rate - time.monotonic()))
        tasks.append(asyncio.create_task(visit(first + nth)))
    done = await asyncio.gather(*tasks, return_exceptions=True)
    return sum(1 for it in done if isinstance(it, Exception))


def notices(server):
    return server.stats()["totals"]["presence_notices"]


def run(options, presence):
    """Returns processor seconds, notices and failures of the visits, and the notices of a storm."""
    visitors = int(options.rate / 2 * options.seconds)
    flags = ["--memory", "--private-fds", "--history-bytes", "0"]
    if presence:
        flags += ["--presence"]
    server = Server(*flags, workers=options.workers)
    try:
        load(server, graph(options.users, visitors, options.friends))
        query = "?presence=1" if presence else ""
        with clients(server, options.users, query, options.threads) as held:
            # The first delay, and the bulk periods that the arrival of all users causes.
            quiet_since = time.monotonic()
            before = -1
            while time.monotonic() < quiet_since + 4 * DELAY:
                time.sleep(1)
                now = server.stats()["totals"].get("presence_snapshots", 0)
                if now != before:
                    before, quiet_since = now, time.monotonic()
            told, spent, begun = notices(server), server.cpu_seconds(), time.monotonic()
            failed = asyncio.run(visits(server, options.users + 1, options.rate / 2, options.seconds))
            time.sleep(DELAY + 1)
            took = time.monotonic() - begun
            spent, told = server.cpu_seconds() - spent, notices(server) - told
            held.kill()
            held.wait()
        storm = notices(server)
        with clients(server, options.users, query, options.threads):
            time.sleep(DELAY + 2)
            storm = notices(server) - storm
        return spent, took, told, failed, storm
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--friends", type=int, default=30)
    parser.add_argument("--rate", type=int, default=500, help="comings and goings a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    without, took, _, failed, _ = run(options, presence=False)
    assert failed == 0, f"{failed} visits failed without presence"
    spent, took, told, failed, storm = run(options, presence=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    share = (spent - without) / options.seconds
    print(f"### Presence\n\n{platform.node()}, Linux {platform.release()}, commit {commit.strip()}\n")
    print("| figure | value |\n|---|---|")
    print(f"| users, friends, comings and goings a second | {options.users}, {options.friends}, {options.rate} |")
    print(f"| notices | {told}, {told / took:.0f} a second |")
    print(f"| processor time of the visits, without and with presence | {without:.2f} s, {spent:.2f} s |")
    print(f"| share of a core that presence takes | {share:.3f} |")
    print(f"| visits that failed | {failed} |")
    print(f"| notices of a reconnect of all users at once | {storm} |")


if __name__ == "__main__":
    main()
