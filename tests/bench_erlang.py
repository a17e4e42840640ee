"""Measures the Erlang node against OTP: tests/.venv/bin/python tests/bench_erlang.py

`ENCKE` names the binary. Calls go to Encke and to the router of the articles on a second BEAM in turn, in one
run; messages and processes are counted against the processor time and the memory of Encke alone.
"""

import shutil
import sys

from harness.erlang import cluster
from harness.server import BINARY, Server

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
        say({What, [{encke_us, Median([E || [E, _] <- Rounds])}, {beam_us, Median([B || [_, B] <- Rounds])},
                    {ratio, Median([E / B || [E, B] <- Rounds])}]})
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


def main():
    if not shutil.which("escript"):
        sys.exit("there is no escript; tests/setup installs one")
    print(f"binary: {BINARY}")
    servers = []

    def start(*flags, **options):
        servers.append(Server(*flags, workers=1, **options))
        return servers[-1]

    with cluster(start) as one:
        second = one.beam(ROUTER, name="second", attributes=COMPILED, functions=SERVE)
        while second.stdout.readline() != "ready\n":
            assert second.poll() is None
        for line in one.run(CALLS, timeout=600, attributes=COMPILED)[-2:]:
            print(line)
        for _ in range(3):
            before = one.server.cpu_seconds()
            taken = one.run(MESSAGES, timeout=600, attributes=COMPILED)[-1]
            used = one.server.cpu_seconds() - before
            print(f"{{messages,1000000,[{{seconds,{int(taken) / 1e6:.2f}}},{{encke_cpu_seconds,{used:.2f}}}]}}")
        before = one.server.resident_bytes()
        many = one.beam(PROCESSES, name="many", attributes=COMPILED, emulator="+P 4000000")
        while many.stdout.readline() != "done\n":
            assert many.poll() is None
        print(f"{{processes,1000000,[{{bytes_each,{(one.server.resident_bytes() - before) / 1e6:.1f}}}]}}")
        many.kill()
        servers[0].stop()


if __name__ == "__main__":
    main()
