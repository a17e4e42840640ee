"""Measures presence: harness/tests/.venv/bin/python harness/tests/bench_presence.py --users 1000000

`ENCKE` names the binary, and `encke-lab` must lie beside it. Users hold streams with `?presence=1` and have thirty
friends. Visitors, who have thirty friends too, come and go: each comes once, so that each coming and each going is told.
The same visits are made with a server that keeps no presence; the difference in processor time is what presence
costs. The least that a notice can cost is measured too: a bare program sends as many messages a second, each to one of as
many sockets in random order.

The users are stopped (SIGSTOP) while it is measured, and the kernel keeps what they are sent: a thread of users that waits
would be woken by each send, at the expense of the server, as no client on another machine is. With `--reading` they go on.

At last all users reconnect at once, which must cause no notice. What is printed is a section of a report in Markdown.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import platform
import random
import signal
import socket
import subprocess
import time

from support.program import BINARY, ROOT
from support.server import Server
from support.wait import until

DELAY = 10
LAB = os.path.join(os.path.dirname(BINARY), "encke-lab")
# Bytes of a notice on a stream of Server-Sent Events, chunk included.
NOTICE_BYTES = 50


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
def clients(url, held, users, query, threads):
    """Users with streams of a server, held by a program of their own. Yields it: its end is their end. `held` says how
    many the server has."""
    command = [LAB, "compare", "clients", f"{url}/events/{{n}}{query}", "--first", "1", "--private-fds"]
    command += ["--connections", str(users), "--threads", str(threads)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        # A port of a client may still be that of one that has just ended.
        until(lambda: held() >= 0.999 * users, "all users are there", patience=600)
        yield holder
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()


@contextlib.contextmanager
def measured(holder, options):
    """While the users do what they do when something is measured."""
    if not options.reading:
        holder.send_signal(signal.SIGSTOP)
    yield
    holder.send_signal(signal.SIGCONT)


def bare_send(options):
    """Processor time in microseconds that a bare program takes to send a message, at the pace of the notices."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1:%d" % free.getsockname()[1]
    command = [LAB, "compare", "bare-hold", "--listen", address, "--workers", str(options.workers), "--private-fds"]
    bare = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(line):
        print(line, file=bare.stdin, flush=True)
        return json.loads(bare.stdout.readline())

    try:
        assert json.loads(bare.stdout.readline())["listening"] == address
        held = lambda: ask("stats")["held"]
        with clients(f"http://{address}", held, options.users, "", options.threads) as holder:
            pace = options.rate * min(options.friends, options.users)
            rounds = max(1, pace * options.seconds // options.users)
            with measured(holder, options):
                spent = ask(f"scatter {rounds} {NOTICE_BYTES} {pace}")
            assert spent["blocked"] == 0, spent
            return spent["cpu_us"] / spent["sends"]
    finally:
        bare.kill()
        bare.wait()
        bare.stdin.close()
        bare.stdout.close()


def spent_by_thread(server):
    """Processor seconds of the server by the names of its threads, without their numbers."""
    spent = collections.Counter()
    for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
        nanoseconds = int((task / "schedstat").read_text().split()[0])
        spent[(task / "comm").read_text().strip().rstrip("0123456789-")] += nanoseconds / 1e9
    return spent


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
    """Returns processor seconds by thread, notices and failures of the visits, and the notices of a storm."""
    visitors = int(options.rate / 2 * options.seconds)
    flags = ["--memory", "--private-fds", "--history-bytes", "0"]
    if presence:
        flags += ["--presence"]
    server = Server(*flags, workers=options.workers)
    try:
        load(server, graph(options.users, visitors, options.friends))
        query = "?presence=1" if presence else ""
        streams = (server.public_url, lambda: server.stats()["online"], options.users, query, options.threads)
        with clients(*streams) as held:
            # The first delay, and the bulk periods that the arrival of all users causes.
            quiet_since = time.monotonic()
            before = -1
            while time.monotonic() < quiet_since + 4 * DELAY:
                time.sleep(1)
                now = server.stats()["totals"].get("presence_snapshots", 0)
                if now != before:
                    before, quiet_since = now, time.monotonic()
            told, before, begun = notices(server), spent_by_thread(server), time.monotonic()
            with measured(held, options):
                failed = asyncio.run(visits(server, options.users + 1, options.rate / 2, options.seconds))
                time.sleep(DELAY + 1)
            took = time.monotonic() - begun
            spent, told = spent_by_thread(server) - before, notices(server) - told
            held.kill()
            held.wait()
        storm = notices(server)
        if presence:
            with clients(*streams):
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
    parser.add_argument("--reading", action="store_true", help="users read what they are sent, and are woken by it")
    options = parser.parse_args()
    bare = bare_send(options)
    without, _, _, failed, _ = run(options, presence=False)
    assert failed == 0, f"{failed} visits failed without presence"
    with_presence, took, told, failed, storm = run(options, presence=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    cost = with_presence.total() - without.total()
    thread = with_presence["encke-presence"]
    print(f"### Presence\n\n{platform.node()}, Linux {platform.release()}, commit {commit.strip()}\n")
    print("| figure | value |\n|---|---|")
    print(f"| users, friends, comings and goings a second | {options.users}, {options.friends}, {options.rate} |")
    print(f"| while it is measured the users | {'read' if options.reading else 'are stopped'} |")
    print(f"| notices | {told}, {told / took:.0f} a second |")
    print(f"| processor time, without and with presence | {without.total():.2f} s, {with_presence.total():.2f} s |")
    print(f"| share of a core that presence takes | {cost / options.seconds:.3f} |")
    print(f"| a notice: processor time | {1e6 * cost / told:.2f} us, of it the presence thread {1e6 * thread / told:.2f} us |")
    print(f"| a send of a bare program at the same pace | {bare:.2f} us |")
    print(f"| visits that failed | {failed} |")
    print(f"| notices of a reconnect of all users at once | {storm} |")


if __name__ == "__main__":
    main()
