"""Measures the Erlang node against OTP: harness/tests/.venv/bin/python harness/tests/bench_erlang.py

`ENCKE` names the binary. Calls go to Encke and to the router of the articles on a second BEAM in turn, in one
run; messages and processes are counted against the processor time and the memory of Encke alone. What is
printed is a section of a report in Markdown.
"""

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys

from support.erlang import cluster
from support.program import BINARY, ROOT
from support.server import Server

# Scripts are interpreted unless they say otherwise.
COMPILED = "-mode(compile).\n"

# The router of 2008, without its printing: what Encke's answers are compared with.
ROUTER = """
    register(router, self()),
    Tables = [ets:new(t, [bag]) || _ <- [1, 2]],
    say(ready),
    serve(Tables)
"""

SERVE = """
serve([Ids, Pids] = Tables) ->
    receive {'$gen_call', {From, Tag}, Request} ->
        Reply = case Request of
            {login, Id, Pid} -> ets:insert(Pids, {Pid, Id}), ets:insert(Ids, {Id, Pid}), ok;
            {send, Id, Msg} ->
                To = lists:usort([Pid || {_, Pid} <- ets:lookup(Ids, Id)]),
                [Pid ! {router_msg, Msg} || Pid <- To],
                {ok, length(To)}
        end,
        gen_server:reply({From, Tag}, Reply),
        serve(Tables)
    end.
"""

CALLS = """
    Nodes = [N, 'second@127.0.0.1'],
    [pong = net_adm:ping(Node) || Node <- Nodes],
    Median = fun(L) -> lists:nth((length(L) + 1) div 2, lists:sort(L)) end,
    Measure = fun(What, Do) ->
        [Do(Node) || Node <- Nodes, _ <- lists:seq(1, 1000)],
        Rounds = [[begin {T, _} = timer:tc(fun() -> [Do(Node) || _ <- lists:seq(1, 5000)] end), T / 5000 end
                   || Node <- Nodes] || _ <- lists:seq(1, 7)],
        say({What, [Median(L) || L <- [[E || [E, _] <- Rounds], [B || [_, B] <- Rounds], [E / B || [E, B] <- Rounds]]]})
    end,
    Measure(call, fun(Node) -> {ok, 0} = gen_server:call({router, Node}, {send, nobody, <<"hello">>}) end),
    [ok = gen_server:call({router, Node}, {login, me, self()}) || Node <- Nodes],
    Measure(call_and_delivery, fun(Node) ->
        {ok, 1} = gen_server:call({router, Node}, {send, me, <<"hello">>}),
        receive {router_msg, _} -> ok end
    end)
"""

MESSAGES = """
    pong = net_adm:ping(N),
    {T, _} = timer:tc(fun() ->
        [{any, N} ! {123, <<"Hello">>} || _ <- lists:seq(1, 1000000)],
        {ok, 0} = gen_server:call({router, N}, {send, nobody, x}, infinity)
    end),
    say(T)
"""

PROCESSES = """
    {ok, 0} = call(router, {send, nobody, x}),
    Wait = fun() -> receive stop -> ok end end,
    [gen_server:cast({router, N}, {login, I, spawn(Wait)}) || I <- lists:seq(1, 1000000)],
    {ok, 1} = gen_server:call({router, N}, {send, 1000000, x}, infinity),
    say(done),
    receive stop -> ok end
"""

MESSAGES_EACH = 1_000_000
PROCESSES_EACH = 1_000_000
ROUNDS = 5


def main():
    if not shutil.which("escript"):
        sys.exit("there is no escript; harness/tests/setup installs one")
    load_before = os.getloadavg()[0]
    with cluster(start) as one:
        rows = calls(one) + messages(one) + processes(one)
        one.server.stop()
    print("\n## Erlang\n")
    print(where(load_before))
    print("\n| figure | measured | asked |\n|---|---:|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def start(*flags, **options):
    return Server(*flags, workers=1, **options)


def where(load_before):
    otp = subprocess.run(
        ["erl", "-noshell", "-eval", 'io:format("~s", [erlang:system_info(otp_release)]), halt().'],
        capture_output=True,
        text=True,
    ).stdout
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()}, OTP {otp}, commit {commit}, binary"
        f" {os.path.relpath(BINARY, ROOT)}, load average {load_before:.1f} before and"
        f" {os.getloadavg()[0]:.1f} after."
    )


def calls(one):
    """Round trips of calls, with and without a message that they lead to."""
    second = one.beam(ROUTER, name="second", attributes=COMPILED, functions=SERVE)
    while second.stdout.readline() != "ready\n":
        assert second.poll() is None
    said = one.run(CALLS, timeout=600, attributes=COMPILED)[-2:]
    second.kill()
    rows = []
    for line, what in zip(said, ["to nobody", "to the caller, message received"], strict=True):
        encke, beam, ratio = map(float, re.findall(r"[\d.]+(?:e-?\d+)?", line))
        measured = f"{encke:.1f} us, {beam:.1f} us, {ratio:.2f} x"
        name = f"call `{{send, Id, Msg}}` {what}: Encke, the BEAM, their ratio"
        rows.append((name, measured, "at most 1.30 x"))
    return rows


def messages(one):
    """Messages taken in from one node."""
    by_processor, by_clock = [], []
    for _ in range(ROUNDS):
        before = one.server.cpu_seconds()
        taken = one.run(MESSAGES, timeout=600, attributes=COMPILED)[-1]
        by_processor.append(MESSAGES_EACH / (one.server.cpu_seconds() - before))
        by_clock.append(MESSAGES_EACH / (int(taken) / 1e6))
    return [
        (
            "messages `{any, Node} ! {Id, Body}` taken in for each second of Encke's processor time",
            spread(by_processor),
            "at least 200,000",
        ),
        ("the same by the clock: what one process of a BEAM could send", spread(by_clock), ""),
    ]


def spread(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def processes(one):
    """Memory of processes that are logged in."""
    before = one.server.resident_bytes()
    many = one.beam(PROCESSES, name="many", attributes=COMPILED, emulator="+P 4000000")
    while many.stdout.readline() != "done\n":
        assert many.poll() is None
    each = (one.server.resident_bytes() - before) / PROCESSES_EACH
    many.kill()
    name = "memory of a process that is logged in, of a million"
    return [(name, f"{each:.1f} bytes", "at most 100")]


if __name__ == "__main__":
    main()
