#!/usr/bin/env python3
"""`encke-proxy tcp` and `encke-proxy hello` beside others: processor time for each operation.

    lab/benches/proxy.py --encke target/release/encke [--rounds 9] [--seconds 1] [proxy|pollers|bulk|hello|top|memory ...]

The others are nginx, HAProxy, Go, hyper, may_minihttp and programs as they were written for Erlang. All
programs of a comparison run at the same time and are loaded in turns, so that a drift of the machine meets
all of them. They have one worker each and a core, and the load has another, so that the scheduler's choices
meet nobody; proxies are compared with a worker for each core too. What counts is the processor time of their
processes. Questions and answers are asked and echoed by `encke-lab compare`, bulk is poured and taken by this
script; that costs every program the same. Needs nginx with its stream module, HAProxy, Go, cargo and
escript; what is missing is left out and said.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import platform
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
CORES = sorted(os.sched_getaffinity(0))
# Who is measured, and what loads them.
MEASURED, LOADING = (set(CORES[:1]), set(CORES[1:2])) if len(CORES) > 1 else (set(CORES), set(CORES))
# Clients that ask at once.
PROXY_CLIENTS, HELLO_CLIENTS, SHORT_CLIENTS = 100, 64, 32
TAKE_BYTES = 1 << 20


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Contender:
    """A program under measurement, and its children."""

    def __init__(self, name, command, port, cores):
        self.name, self.port = name, port
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        deadline = time.monotonic() + 15
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{name} did not come to listen at {port}") from None
                time.sleep(0.05)

    def pids(self):
        pid = self.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def processor(self, threads=""):
        """Seconds of processor time so far, as the scheduler counted, of threads whose names begin so."""
        nanos = 0
        for pid in self.pids():
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    if (task / "comm").read_text().startswith(threads):
                        nanos += int((task / "schedstat").read_text().split()[0])
        return nanos / 1e9

    def private(self):
        """Bytes of memory that are this process's alone."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        lines = [line.split() for line in text.splitlines() if line.startswith("Private_")]
        return sum(int(words[1]) for words in lines if words[0] != "Private_Hugetlb:") * 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Programs:
    """Starts contenders and ends them."""

    def __init__(self, encke, scratch):
        self.encke, self.scratch = encke, pathlib.Path(scratch)
        self.proxy, self.lab = encke.with_name("encke-proxy"), encke.with_name("encke-lab")
        self.running = []

    def start(self, name, command, port, cores=MEASURED):
        self.running.append(Contender(name, command, port, cores))
        return self.running[-1]

    def stop(self):
        while self.running:
            self.running.pop().stop()

    def echo(self, cores=LOADING):
        """A backend that says everything back."""
        port = free_port()
        command = [self.lab, "compare", "bare-echo", "--listen", f"127.0.0.1:{port}"]
        return self.start("echo", command, port, cores)

    def ask(self, question, count, port, seconds):
        """Asks and awaits on so many connections. Answers, and the 99th of 100 times in microseconds."""
        command = [self.lab, "compare", "bare-ask", f"127.0.0.1:{port}", "--ask", question]
        command += ["--connections", str(count), "--duration", f"{seconds}s"]
        answers = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return answers["answers"], answers["p99_micros"]

    def encke_proxy(self, name, backend, *flags, cores=MEASURED):
        port = free_port()
        flags = [*flags, "--log-level", "warn", "--drain-timeout", "0"]
        listen = ["--listen", f"127.0.0.1:{port}", "--to", f"127.0.0.1:{backend}"]
        return self.start(name, [self.proxy, "tcp", *listen, *flags], port, cores)

    def proxies(self, backend, cores=MEASURED, bulk=False):
        """All proxies, with a worker for each of the cores, set up for bulk or for small messages."""
        workers = len(cores)
        yield self.encke_proxy("encke", backend, "--workers", str(workers), cores=cores)
        if shutil.which("nginx"):
            port = free_port()
            module = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;"
            # 16 KiB by default, which is slow for bulk; more than a megabyte makes it no faster.
            buffers = "proxy_buffer_size 1m;" if bulk else ""
            server = f"listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{backend}; {buffers}"
            server = f"stream {{ server {{ {server} }} }}"
            yield self.nginx(port, module, server, cores)
        if shutil.which("haproxy"):
            port = free_port()
            path = self.scratch / f"haproxy-{port}.cfg"
            # `splice-auto` decides by itself, and splices little of what comes here.
            pipes, splice = "", " option splice-auto\n"
            if bulk:
                pipes, splice = " tune.pipesize 1048576\n", " option splice-request\n option splice-response\n"
            path.write_text(
                f"global\n nbthread {workers}\n maxconn 4000\n{pipes}defaults\n mode tcp\n timeout connect 5s\n"
                f" timeout client 1m\n timeout server 1m\n{splice}"
                f"listen relay\n bind 127.0.0.1:{port}\n server backend 127.0.0.1:{backend}\n"
            )
            yield self.start("haproxy", ["haproxy", "-db", "-f", path], port, cores)
        if shutil.which("go"):
            port, program = free_port(), self.scratch / "relay"
            if not program.exists():
                cache = {**os.environ, "GOCACHE": str(self.scratch / "go-cache")}
                build = ["go", "build", "-o", program, HERE / "relay.go"]
                subprocess.run(build, check=True, env=cache)
            command = ["env", f"GOMAXPROCS={workers}", program]
            command += [f"127.0.0.1:{port}", f"127.0.0.1:{backend}"]
            yield self.start("go", command, port, cores)
        if shutil.which("escript"):
            port = free_port()
            command = ["env", f"ERL_ZFLAGS=+S {workers}:{workers}", HERE / "old.escript", "proxy"]
            yield self.start("erlang", [*command, port, backend], port, cores)

    def hellos(self):
        yield from self.deferring_hellos("", [])
        for name in ("hyper", "may"):
            if program := self.peer(f"{name}_hello"):
                port = free_port()
                yield self.start(name, [program, port], port)
        if shutil.which("escript"):
            port = free_port()
            yield self.start("erlang", [HERE / "old.escript", "hello", port], port)

    def deferring_hellos(self, option, flags):
        port = free_port()
        listen = ["--listen", f"127.0.0.1:{port}", "--workers", "1"]
        yield self.start("encke", [self.proxy, "hello", *listen, *flags], port)
        if shutil.which("nginx"):
            port = free_port()
            server = (
                "http { access_log off; keepalive_requests 1000000000; "
                f"server {{ listen 127.0.0.1:{port} {option}; location / {{ return 200 hello; }} }} }}"
            )
            yield self.nginx(port, "", server)

    def peer(self, name):
        """A Rust server of `peers`, built the first time that it is asked for."""
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or HERE / "peers/target")
        manifest = ["--manifest-path", HERE / "peers/Cargo.toml", "--target-dir", target]
        command = ["cargo", "build", "--quiet", "--release", "--locked", *manifest]
        if not shutil.which("cargo") or subprocess.run(command, check=False).returncode:
            print(f"{name} cannot be built and is left out", file=sys.stderr)
            return None
        return target / "release" / name

    def nginx(self, port, head, server, cores=MEASURED):
        directory = self.scratch / f"nginx-{port}"
        directory.mkdir()
        path = directory / "nginx.conf"
        path.write_text(
            f"{head}\nworker_processes {len(cores)};\ndaemon off;\npid {directory}/pid;\n"
            f"error_log {directory}/log;\nevents {{ worker_connections 16384; }}\n{server}\n"
        )
        return self.start("nginx", ["nginx", "-c", path, "-p", directory], port, cores)


def serve(act, interest, apart=True):
    """A backend until the script ends: in a process of its own, or on a thread. Its port, and its
    connections where it is a thread."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    sockets = {}

    def run():
        poller = select.epoll()
        poller.register(listener, select.EPOLLIN)
        while True:
            for number, _ in poller.poll():
                if number == listener.fileno():
                    client, _ = listener.accept()
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    client.setblocking(False)
                    sockets[client.fileno()] = client
                    poller.register(client, interest)
                    continue
                try:
                    goes_on = act(sockets[number])
                except BlockingIOError:
                    goes_on = True
                except OSError:
                    goes_on = False
                if not goes_on:
                    poller.unregister(number)
                    sockets.pop(number).close()

    kind = multiprocessing.get_context("fork").Process if apart else threading.Thread
    kind(target=run, daemon=True).start()
    return listener.getsockname()[1], sockets


def hold(client):
    return bool(client.recv(65536))


POURED = bytes(TAKE_BYTES)


def pour(client):
    return client.send(POURED)


def connect(port, count):
    clients = []
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        clients.append(client)
    return clients


def take(port, count, seconds):
    """Takes all that comes; the kernel throws it away. Gigabytes."""
    clients = {client.fileno(): client for client in connect(port, count)}
    poller = select.epoll()
    for number in clients:
        poller.register(number, select.EPOLLIN)
    total, block = 0, bytearray(TAKE_BYTES)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for number, _ in poller.poll(0.1):
            total += clients[number].recv_into(block, TAKE_BYTES, socket.MSG_TRUNC)
    for client in clients.values():
        client.close()
    return total / 1e9, None


def compare(title, unit, contenders, load, asked, arguments, p99_asked=(), rates_too=False):
    """Loads contenders in turns and prints what an operation costs each."""
    costs = {contender.name: [] for contender in contenders}
    tails = {contender.name: [] for contender in contenders}
    rates = {contender.name: [] for contender in contenders}
    for number in range(arguments.rounds):
        shift = number % len(contenders)
        # Nobody is always first after the others have warmed the caches.
        for contender in contenders[shift:] + contenders[:shift]:
            settle(contenders)
            load(contender.port, 0.3)
            before = contender.processor()
            operations, tail = load(contender.port, arguments.seconds)
            if not operations:
                raise SystemExit(f"{title}: {contender.name} did nothing; raise --seconds")
            costs[contender.name].append((contender.processor() - before) * 1e6 / operations)
            tails[contender.name].append(tail)
            rates[contender.name].append(operations / arguments.seconds)
    for name, values in costs.items():
        cost, rate = statistics.median(values), statistics.median(rates[name])
        beside = f"{rate:,.0f} /s" if rate > 100 else f"{rate:,.1f} /s"
        if tails[name][0] is not None:
            beside += f", p99 {statistics.median(tails[name]):,.0f} us"
        print(f"| {title}: {name} | {cost:,.2f} {unit} | {beside} |", flush=True)
    for name, values in costs.items():
        if name == "encke":
            continue
        ratio = statistics.median(a / b for a, b in zip(costs["encke"], values))
        bound = asked.get(name)
        print(f"| {title}: encke, of {name} | {ratio:.2f} x | {verdict(ratio, bound)} |", flush=True)
        if rates_too:
            ratio = statistics.median(a / b for a, b in zip(rates["encke"], rates[name]))
            print(f"| {title}: rate of encke, of {name} | {ratio:.2f} x | |", flush=True)
    for name in p99_asked:
        if name in tails:
            ratio = statistics.median(a / b for a, b in zip(tails["encke"], tails[name]))
            print(f"| {title}: p99 of encke, of {name}'s | {ratio:.2f} x | {verdict(ratio, 1.0)} |", flush=True)


def settle(contenders):
    """Waits until nobody is busy with what is left of its turn: it would take another's core."""
    deadline, before = time.monotonic() + 10, None
    while time.monotonic() < deadline:
        now = sum(contender.processor() for contender in contenders)
        if before is not None and now - before < 0.001:
            return
        before = now
        time.sleep(0.05)


def verdict(ratio, bound):
    if bound is None:
        return ""
    return f"at most {bound}{'' if ratio <= bound else ' (**missed**)'}"


def measure_proxies(programs, arguments):
    asked = {"haproxy": 0.85, "nginx": 0.95}
    contenders = list(programs.proxies(programs.echo().port))
    title = f"64 bytes and back, {PROXY_CLIENTS} connections"
    load = lambda port, seconds: programs.ask("echo", PROXY_CLIENTS, port, seconds)
    compare(title, "us", contenders, load, asked, arguments, p99_asked=asked)
    programs.stop()
    with everywhere():
        contenders = list(programs.proxies(programs.echo(CORES).port, CORES))
        title += ", a worker for each core"
        compare(title, "us", contenders, load, asked, arguments, p99_asked=asked)
        programs.stop()


def measure_pollers(programs, arguments):
    """What Erlang gained in 2012: a poller for each worker instead of one for all."""
    with everywhere():
        backend = programs.echo(CORES).port
        load = lambda port, seconds: programs.ask("echo", PROXY_CLIENTS, port, seconds)
        for workers in (2, 8):
            proxy = lambda name, *flags: programs.encke_proxy(
                name, backend, "--workers", str(workers), *flags, cores=CORES
            )
            contenders = [proxy("encke"), proxy("one poller for all", "--shared-poller")]
            title = f"64 bytes and back, {workers} workers"
            compare(title, "us", contenders, load, {}, arguments, rates_too=True)
        programs.stop()


@contextlib.contextmanager
def everywhere():
    """The load on all cores, where those that are measured are too."""
    os.sched_setaffinity(0, CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, LOADING)


def measure_bulk(programs, arguments):
    source_port, _ = serve(pour, select.EPOLLOUT)
    contenders = list(programs.proxies(source_port, bulk=True))
    for count in (1, 100):
        load = lambda port, seconds: take(port, count, seconds)
        asked = {"go": 0.95, "haproxy": 0.95}
        title = f"bulk, {count} connection{'s' if count > 1 else ''}"
        compare(title, "us/GB", contenders, load, asked, arguments)
    programs.stop()


def measure_hellos(programs, arguments):
    contenders = list(programs.hellos())
    kept = lambda port, seconds: programs.ask("http", HELLO_CLIENTS, port, seconds)
    once = lambda port, seconds: programs.ask("http-once", SHORT_CLIENTS, port, seconds)
    asked = {"nginx": 0.85, "hyper": 0.95, "may": 0.95}
    compare(f"hello, keep-alive, {HELLO_CLIENTS} connections", "us", contenders, kept, asked, arguments)
    # may_minihttp does not close where it is asked to.
    closing = [contender for contender in contenders if contender.name != "may"]
    asked = {"nginx": 0.85}
    compare(f"hello, short connections, {SHORT_CLIENTS} at once", "us", closing, once, asked, arguments)
    programs.stop()
    contenders = list(programs.deferring_hellos("deferred", ["--defer-accept"]))
    compare("hello, short and deferred", "us", contenders, once, {}, arguments)
    programs.stop()


def measure_looking(programs, arguments):
    """What it costs a loaded server that `encke top` looks at it each second: its workers do nothing for it."""
    port, control = free_port(), free_port()
    listen = ["--listen", f"127.0.0.1:{port}", "--workers", "1", "--control", f"127.0.0.1:{control}"]
    hello = programs.start("encke", [programs.proxy, "hello", *listen], port)
    top = [programs.encke, "top", "--control", f"http://127.0.0.1:{control}", "--json"]
    seconds = 10 * arguments.seconds
    with subprocess.Popen(top, stdout=subprocess.DEVNULL) as looker:
        before = hello.processor("encke-control")
        programs.ask("http", HELLO_CLIENTS, port, seconds)
        share = (hello.processor("encke-control") - before) / seconds
        looker.terminate()
    if not share:
        raise SystemExit("encke top has not been answered: no thread of the control listener did anything")
    said = "at most 2 %" if share <= 0.02 else "at most 2 % (**missed**)"
    print(f"| encke top looks each second: of a core | {share:.3%} | {said} |", flush=True)
    programs.stop()


def measure_memory(programs, arguments):
    port, held = serve(hold, select.EPOLLIN, apart=False)
    proxy = next(programs.proxies(port))
    # Grown once, so that what the first connections take for good is not counted.
    for client in connect(proxy.port, 100):
        client.close()
    time.sleep(0.5)
    before = proxy.private()
    clients = connect(proxy.port, arguments.pairs)
    deadline = time.monotonic() + 60
    while len(held) < arguments.pairs:
        assert time.monotonic() < deadline, f"{len(held)} of {arguments.pairs} pairs were made"
        time.sleep(0.1)
    time.sleep(1)
    pair = (proxy.private() - before) / arguments.pairs
    said = "at most 200" if pair <= 200 else "at most 200 (**missed**)"
    print(f"| {arguments.pairs} idle pairs: a pair | {pair:.0f} bytes | {said} |", flush=True)
    for client in clients:
        client.close()
    programs.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["proxy", "pollers", "bulk", "hello", "top", "memory"])
    parser.add_argument("--encke", type=pathlib.Path, default="target/release/encke")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--pairs", type=int, default=9000)
    arguments = parser.parse_args()
    for program in ("nginx", "haproxy", "go", "escript"):
        if not shutil.which(program):
            print(f"{program} is not installed and left out", file=sys.stderr)
    os.sched_setaffinity(0, LOADING)
    print(f"Linux {platform.release()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| figure | measured | asked, or p99 |\n|---|---:|---|")
    measures = {
        "proxy": measure_proxies,
        "pollers": measure_pollers,
        "bulk": measure_bulk,
        "hello": measure_hellos,
        "top": measure_looking,
        "memory": measure_memory,
    }
    with tempfile.TemporaryDirectory(prefix="encke-bench-proxy-") as scratch:
        programs = Programs(arguments.encke, scratch)
        try:
            for what in arguments.what:
                measures[what](programs, arguments)
        finally:
            programs.stop()


if __name__ == "__main__":
    main()
