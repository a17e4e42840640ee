"""Measures how soon a new node of a cluster serves: harness/tests/.venv/bin/python harness/tests/bench_snapshot.py --users 1000000

`ENCKE` names the binary. A graph of friendships is made, loaded into a data directory, and imported into a new cluster of three
servers of the engine. Then a node with an empty directory starts from the snapshot. Prints a section of a report in Markdown."""

import argparse
import os
import pathlib
import platform
import subprocess
import tempfile
import time

from support.nats import Nats
from support.program import BINARY
from support.server import Server


def timed(*command, **options):
    """Runs a command of the binary. Returns how long it took."""
    began = time.monotonic()
    subprocess.run([BINARY, *map(str, command)], check=True, stdout=subprocess.DEVNULL, **options)
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--degree", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="encke-bench-snapshot-") as directory, Nats(3) as engine:
        directory = pathlib.Path(directory)
        friends, data = directory / "friends.txt", directory / "data"
        timed("friends", "generate", "--users", arguments.users, "--degree", arguments.degree, "--seed", 1, "-o", friends)
        load = timed("friends", "load", friends, "--mutual", "--data", data)
        cluster = ["--cluster", engine.url, "--cluster-name", "bench", "--log-bytes", "256MiB"]
        imported = timed("cluster", "import", "--data", data, *cluster)
        began = time.monotonic()
        node = Server(*cluster, "--node", "n1", "--data", directory / "node", env={"ENCKE_MEMORY": "false"})
        try:
            started = time.monotonic() - began
            edges = node.stats()["graph"]["edges"]
            resident = node.resident_bytes()
        finally:
            node.stop()
        size = (data / "graph.redb").stat().st_size
        began = time.monotonic()
        node = Server(*cluster, "--node", "n1", "--data", directory / "node", env={"ENCKE_MEMORY": "false"})
        again = time.monotonic() - began
        node.stop()
    print(f"## Start from a snapshot, {edges:,} directed edges\n")
    print(f"{os.cpu_count()} cores, Linux {platform.release()}: `harness/tests/bench_snapshot.py --users {arguments.users}`\n")
    print("| figure | measured | asked |\n|---|---:|---|")
    print(f"| load into a data directory | {load:.1f} s, {size / 1e6:.0f} MB | |")
    print(f"| import into the cluster, checks included | {imported:.1f} s | |")
    print(f"| start of a node without data, until it is ready | {started:.1f} s, {resident / 1e6:.0f} MB resident | at most 20 s |")
    print(f"| start of the same node with its data | {again:.1f} s | |")


if __name__ == "__main__":
    main()
