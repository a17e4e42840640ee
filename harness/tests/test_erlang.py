"""Encke as a node of an Erlang cluster: real BEAMs beside it, on an epmd of their own."""

import contextlib
import json
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
import types

import pytest

from support.erlang import (
    CLIENTS,
    COOKIE,
    FLAGS,
    Cluster,
    Peer,
    atom,
    binary,
    cluster,
    pair,
)
from support.http import Ndjson, Sse
from support.program import ENVIRONMENT, address, encke
from support.server import Server, measure_cpu
from support.wait import until

pytestmark = pytest.mark.skipif(not shutil.which("escript"), reason="harness/tests/setup installs Erlang")

@pytest.fixture(scope="module")
def shared():
    """A cluster that many tests share: each takes ids of its own."""
    servers = []

    def start(*flags, **options):
        servers.append(Server("--drain-timeout", "5s", *flags, **options))
        return servers[-1]

    one = Cluster(start)
    yield one
    for server in servers:
        server.stop()
    one.stop()


# The shell transcripts of the articles


def test_ping_from_a_beam_is_answered_and_the_node_is_hidden(shared):
    assert shared.run("say(net_adm:ping(N)), say(nodes()), say(nodes(hidden))") == [
        "pong",
        "[]",
        f"['{shared.name}']",
    ]


def test_subscribers_are_added_listed_and_removed(shared):
    script = """
    say(call(subsmanager, {add_subscriptions, [{subscription, alice, rj1}, {subscription, bob, rj1}]})),
    say(lists:sort(call(subsmanager, {get_subscribers, rj1}))),
    say(call(subsmanager, {remove_subscriptions, [{subscription, bob, rj1}]})),
    say(call(subsmanager, {get_subscribers, rj1})),
    say(call(subsmanager, {get_subscribers, charlie}))
    """
    assert shared.run(script) == ["ok", "[alice,bob]", "ok", "[alice]", "[]"]


def test_a_message_reaches_those_who_are_logged_in_and_subscribe(shared):
    script = """
    say(call(router, {send, rj2, "nobody is there"})),
    ok = call(subsmanager, {add_subscriptions, [{fan, rj2}]}),
    Main = self(),
    Pid = spawn(fun() -> receive M -> Main ! {fan, M} end, receive stop -> ok end end),
    say(call(router, {login, fan, Pid})),
    say(call(router, {login, rj2, self()})),
    say(call(router, {send, rj2, "RJ did something"})),
    receive {fan, M} -> say(M) end,
    receive {router_msg, Own} -> say(Own) end,
    say(call(router, {logout, self()})),
    say(call(router, {send, rj2, "again"})),
    Pid ! stop,
    until(fun() -> call(router, {send, rj2, "once more"}) =:= {ok, 0} end)
    """
    assert shared.run(script) == [
        "{ok,0}",
        "ok",
        "ok",
        "{ok,2}",
        '{router_msg,"RJ did something"}',
        '"RJ did something"',
        "ok",
        "{ok,1}",
    ]


def test_a_message_as_to_a_c_node_reaches_sessions_of_one_id(shared):
    with Sse(shared.server, "123") as number, Sse(shared.server, "cnode-user") as named:
        shared.run(
            """
            {any, N} ! {123, <<"Hello">>},
            {any, N} ! {'cnode-user', ["io", [<<"li">>, $s], "t"]},
            {any, N} ! {"cnode-user", <<"string">>},
            {any, N} ! {<<"cnode-user">>, <<"binary">>},
            say(net_adm:ping(N))
            """
        )
        assert number.data() == "Hello"
        assert [named.data() for _ in range(3)] == ["iolist", "string", "binary"]


def test_two_nodes_share_one_router(shared):
    listener = shared.beam(
        """
        ok = call(router, {login, across, self()}),
        ok = call(router, {login, across_too, self()}),
        say(ready),
        receive {router_msg, {from, Other, Pid}} -> pong = net_adm:ping(Other), Pid ! thanks, say(Other) end,
        receive stop -> ok end
        """,
        name="listener",
    )
    assert listener.stdout.readline() == "ready\n"
    said = shared.run(
        """
        say(call(router, {send, across, {from, node(), self()}})),
        receive Thanks -> say(Thanks) end
        """,
        name="sender",
    )
    assert said == ["{ok,1}", "thanks"]
    assert listener.stdout.readline() == "'sender@127.0.0.1'\n"
    listener.kill()


def test_a_process_may_be_logged_in_by_another_node(shared):
    """Its node is called then, which nobody had connected with."""
    listener = shared.beam(
        "register(main, self()), say(ready), receive {router_msg, Msg} -> say(Msg) end",
        name="third",
    )
    assert listener.stdout.readline() == "ready\n"
    said = shared.run(
        """
        Main = rpc:call('third@127.0.0.1', erlang, whereis, [main]),
        say(call(router, {login, proxied, Main})),
        until(fun() -> call(router, {send, proxied, hello}) =:= {ok, 1} end)
        """,
        name="proxy",
    )
    assert said == ["ok"]
    assert listener.stdout.readline() == "hello\n"
    listener.wait(30)


# What passes between Erlang and HTTP


def test_terms_reach_http_clients_as_text(shared):
    terms = {
        "<<\"text é\"/utf8>>": "text é",
        '"string ü"': "string ü",
        "{song, \"Sky\", 'B 52', 2.5}": "{song,\"Sky\",'B 52',2.5}",
        "[1,2,3]": "[1,2,3]",
        "#{key => <<\"value\">>}": '#{key => <<"value">>}',
        "[]": "[]",
    }
    with Ndjson(shared.server, "listens-to-terms") as stream:
        sends = [f"call(router, {{send, 'listens-to-terms', {term}}})" for term in terms]
        said = shared.run("say(lists:usort([" + ", ".join(sends) + "]))")
        assert said == ["[{ok,1}]"]
        assert [stream.data() for _ in terms] == list(terms.values())


def test_http_publishers_reach_processes(shared):
    beam = shared.beam(
        """
        ok = call(router, {login, <<"process">>, self()}),
        say(ready),
        [receive {router_msg, Msg} -> say(Msg) end || _ <- [1, 2]]
        """
    )
    assert beam.stdout.readline() == "ready\n"
    (session,) = shared.server.sessions("process")
    assert session["transport"] == "erlang" and session["ids"] == ["process"]
    assert shared.server.publish("process", "text")["written"] == 1
    receipt = shared.server.publish("process", '{"a":1}', content_type="application/json")
    assert receipt["written"] == 1
    assert beam.stdout.readline() == '<<"text">>\n'
    assert beam.stdout.readline() == '<<"{\\"a\\":1}">>\n'
    beam.wait(30)
    until(lambda: not shared.server.sessions("process"), "logged out when its node has gone")


def test_the_operator_can_close_the_session_of_a_process(shared):
    beam = shared.beam(
        "ok = call(router, {login, closable, self()}), say(ready), receive stop -> ok end"
    )
    assert beam.stdout.readline() == "ready\n"
    assert shared.server.api.delete("/v1/sessions/closable").is_success
    until(lambda: not shared.server.sessions("closable"), "the session closed")
    beam.kill()


def test_no_atom_is_made_in_a_peer_from_what_users_say(shared):
    for number in range(300):
        shared.server.subscribe(f"{{user_{number},x}}", "atoms")
        shared.server.subscribe(f"atom_{number}", "atoms")
    said = shared.run(
        """
        call(subsmanager, {get_subscribers, warm_up}),
        Before = erlang:system_info(atom_count),
        Ids = call(subsmanager, {get_subscribers, atoms}),
        say(erlang:system_info(atom_count) - Before),
        say(length(Ids)),
        say([Id || Id <- Ids, not is_binary(Id)])
        """
    )
    assert said == ["0", "600", "[]"]


def test_ids_come_back_as_they_were_put_in(shared):
    script = """
    Ids = [alice, <<"bob">>, "carol", 7, -7, {user, 123}, [x | y], 2.5, 'A b'],
    ok = call(subsmanager, {add_subscriptions, [{Id, spelt} || Id <- Ids]}),
    say(lists:sort(call(subsmanager, {get_subscribers, spelt})) =:= lists:sort(Ids))
    """
    assert shared.run(script) == ["true"]
    answer = shared.server.api.get("/v1/subscribers/spelt").json()
    assert set(map(str, answer["subscribers"])) == {
        "alice", "bob", "carol", "7", "-7", "{user,123}", "[x|y]", "2.5", "A b",
    }  # fmt: skip


def test_ids_come_back_as_they_were_put_in_after_encke_was_killed(start, tmp_path):
    ids = """[alice, <<"bob">>, "carol", 7, -7, {user, 123}, [x | y], 2.5, 'A b', #{k => v}]"""
    ask = "lists:sort(call(subsmanager, {get_subscribers, kept})) =:= lists:sort(%s)"
    data = ("--data", tmp_path / "data")
    with cluster(start, *data) as one:
        add = f"call(subsmanager, {{add_subscriptions, [{{Id, kept}} || Id <- {ids}]}})"
        assert one.run(f"say({add}), say({ask % ids})") == ["ok", "true"]
        one.server.subscribe("http", "kept")
        all_ids = ids[:-1] + ', <<"http">>]'
        for _ in range(2):
            one.server.kill()
            one.server = start(*one.flags, env={"ERL_EPMD_PORT": str(one.epmd.port)})
            one.wait_registered()
            assert one.run(f"say({ask % all_ids})") == ["true"]


def test_ids_come_back_as_they_were_put_in_from_a_backup(start, tmp_path):
    ids = "[alice, <<\"bob\">>, \"carol\", {user, 123}]"
    ask = f"lists:sort(call(subsmanager, {{get_subscribers, kept}})) =:= lists:sort({ids})"
    data, online, offline = (tmp_path / name for name in ("data", "online", "offline"))
    online.mkdir()
    offline.mkdir()
    with cluster(start, "--data", data) as one:
        add = f"call(subsmanager, {{add_subscriptions, [{{Id, kept}} || Id <- {ids}]}})"
        assert one.run(f"say({add})") == ["ok"]
        at = ("--online", "--control", one.server.control_url)
        said = encke("graph", "backup", online / "b", *at, "--json")
        assert said.returncode == 0, said.stderr
        assert json.loads(said.stdout)["erlang_ids"] == f"{online}/b.erlang-ids"
        one.server.stop()
        said = encke("graph", "backup", offline / "b", "--data", data)
        assert said.returncode == 0 and "b.erlang-ids" in said.stdout, said
    for copy in (online, offline):
        assert {path.name for path in copy.iterdir()} == {"b", "b.erlang-ids"}
        (copy / "b").rename(copy / "graph.redb")
        (copy / "b.erlang-ids").rename(copy / "erlang-ids")
        with cluster(start, "--data", copy) as one:
            assert one.run(f"say({ask})") == ["true"]


def test_a_file_of_spellings_that_is_none_is_refused(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "erlang-ids").write_text("something else")
    cookie = tmp_path / "cookie"
    cookie.write_text("secret")
    cookie.chmod(0o400)
    said = encke(
        "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--data", data,
        "--erlang-name", "encke@127.0.0.1", "--erlang-cookie-file", cookie,
    )  # fmt: skip
    assert said.returncode == 1
    assert "erlang-ids" in said.stderr and "move it away" in said.stderr


def test_the_client_module_passes_its_own_tests(shared):
    for module in ("encke", "encke_tests"):
        done = subprocess.run(
            ["erlc", "-Werror", "-o", shared.path, CLIENTS / f"{module}.erl"],
            capture_output=True,
            text=True,
            env=shared.epmd.environment,
        )
        assert done.returncode == 0, done.stdout
    said = shared.run(
        f'true = os:putenv("ENCKE_NODE", "{shared.name}"), say(eunit:test(encke_tests))'
    )
    assert said[-1] == "ok", "\n".join(said)


def test_the_client_module_has_documentation(shared):
    script = f"""
    ok = edoc:files(["{CLIENTS}/encke.erl"], [{{dir, "{shared.path}/doc"}}]), say(done)
    """
    assert shared.run(script)[-1] == "done"
    assert "start_link" in (shared.path / "doc" / "encke.html").read_text()


# Restarts


def test_the_global_names_are_found_again_after_encke_restarts(start):
    with cluster(start) as one:
        subprocess.run(["erlc", "-o", one.path, CLIENTS / "encke.erl"], check=True)
        beam = one.beam(
            """
            {ok, _} = encke:start_link(N),
            Whereis = fun() -> is_pid(global:whereis_name(router)) end,
            until(Whereis),
            say(gen_server:call(global:whereis_name(router), {send, x, y})),
            until(fun() -> not Whereis() end),
            say(gone),
            until(Whereis),
            say(gen_server:call(global:whereis_name(router), {send, x, y}))
            """
        )
        assert beam.stdout.readline() == "{ok,0}\n"
        one.server.stop()
        assert beam.stdout.readline() == "gone\n"
        start(*one.flags, env={"ERL_EPMD_PORT": str(one.epmd.port)})
        assert beam.stdout.readline() == "{ok,0}\n"
        assert beam.wait(30) == 0


def restart(one, start):
    one.server.kill()
    one.server = start(*one.flags, env={"ERL_EPMD_PORT": str(one.epmd.port)})


def test_processes_are_logged_in_again_after_encke_restarts(start):
    with cluster(start) as one:
        subprocess.run(["erlc", "-o", one.path, CLIENTS / "encke.erl"], check=True)
        beam = one.beam(
            """
            {ok, _} = encke:start_link(N),
            ok = encke:login(N, again),
            ok = encke:login(N, {user, 7}, self(), [gap]),
            Leaves = spawn(fun() -> receive stop -> ok end end),
            ok = encke:login(N, leaves, Leaves),
            ok = encke:logout(N, Leaves),
            Dies = spawn(fun() -> receive stop -> ok end end),
            ok = encke:login(N, dies, Dies),
            exit(Dies, kill),
            say(ready),
            [receive {router_msg, Msg} -> say(Msg) end || _ <- [1, 2, 3]]
            """
        )
        assert beam.stdout.readline() == "ready\n"
        assert one.server.publish("again", "before")["written"] == 1
        assert beam.stdout.readline() == '<<"before">>\n'
        for subject in ("again", "{user,7}"):
            restart(one, start)
            until(lambda name=subject: one.server.sessions(name), "the process logged in again")
            assert not one.server.sessions("leaves") and not one.server.sessions("dies")
            assert one.server.publish(subject, "after")["written"] == 1
            assert beam.stdout.readline() == '<<"after">>\n'
        assert beam.wait(30) == 0


def test_a_repeated_login_has_the_options_of_all_logins_and_not_those_of_a_refused_one(start):
    with cluster(start) as one:
        subprocess.run(["erlc", "-o", one.path, CLIENTS / "encke.erl"], check=True)
        beam = one.beam(
            """
            {ok, _} = encke:start_link(N),
            until(fun() -> encke:current() =:= N end),
            % Says how many notices of lost events, and how many of presence, came before an event.
            Notices = fun(Name) ->
                receive {router_msg, _} -> ok end,
                {messages, All} = process_info(self(), messages),
                say({Name, length([1 || {router_gap, unknown} <- All]), length([1 || {presence_snapshot, _, _} <- All])})
            end,
            ok = encke:login(N, alice, self(), [gap]),
            ok = encke:login(N, alice),
            % This server does not keep who is online.
            {error, _} = encke:login(N, alice, self(), [presence]),
            {error, _} = encke:login(N, never, self(), [presence]),
            Other = spawn(fun() -> Notices(other) end),
            ok = encke:login(N, bob, Other, [gap]),
            ok = encke:login(N, carol, Other, [gap]),
            say(ready),
            Notices(alice),
            receive stop -> ok end
            """
        )
        assert beam.stdout.readline() == "ready\n"
        # A login that was refused would be accepted by this one.
        one.flags.append("--presence")
        restart(one, start)
        for name in ("alice", "bob", "carol"):
            until(lambda name=name: one.server.sessions(name), "the process logged in again")
        assert not one.server.sessions("never")
        assert one.server.publish("alice", "after")["written"] == 1
        assert beam.stdout.readline() == "{alice,1,0}\n"
        assert one.server.publish("bob", "after")["written"] == 1
        assert beam.stdout.readline() == "{other,1,0}\n"


def test_a_linked_process_ends_with_encke_and_others_do_not(start):
    with cluster(start) as one:
        beam = one.beam(
            """
            Start = fun(Id, Options) ->
                Pid = spawn(fun() -> receive stop -> ok end end),
                ok = call(router, {login, Id, Pid, Options}),
                {Pid, monitor(process, Pid)}
            end,
            {Closed, M1} = Start(closed, [link]),
            {Linked, M2} = Start(linked, [link]),
            {Free, _} = Start(free, []),
            say(ready),
            receive {'DOWN', M1, process, Closed, Why1} -> say(Why1) end,
            receive {'DOWN', M2, process, Linked, Why2} -> say(Why2) end,
            say(is_process_alive(Free))
            """
        )
        assert beam.stdout.readline() == "ready\n"
        for name in ("closed", "free"):
            assert one.server.api.delete(f"/v1/sessions/{name}").is_success
        assert beam.stdout.readline() == "closed\n"
        one.server.kill()
        assert beam.stdout.readline() == "noconnection\n"
        assert beam.stdout.readline() == "true\n"
        assert beam.wait(30) == 0


def test_the_global_names_are_found_again_after_the_beams_restart(start):
    """Each node of the cluster keeps the names; those of a node that ends are taken over."""
    with cluster(start) as one:
        subprocess.run(["erlc", "-o", one.path, CLIENTS / "encke.erl"], check=True)
        script = """
        {ok, _} = encke:start_link(N),
        Found = fun(Name) -> is_pid(global:whereis_name(Name)) end,
        % One name is registered after the other.
        until(fun() -> Found(router) andalso Found(subsmanager) end),
        {ok, 0} = gen_server:call(global:whereis_name(router), {send, x, y}),
        [] = gen_server:call(global:whereis_name(subsmanager), {get_subscribers, nobody}),
        say(found),
        receive stop -> ok end
        """
        first = one.beam(script, name="first")
        assert first.stdout.readline() == "found\n"
        second = one.beam("pong = net_adm:ping('first@127.0.0.1')," + script, name="second")
        assert second.stdout.readline() == "found\n"
        for _ in range(2):
            first.kill()
            first.wait()
            first = one.beam(script, name="first")
            assert first.stdout.readline() == "found\n"
        second.kill()
        second.wait()
        first.kill()
        until(lambda: one.figures()["erlang_nodes"] == 0, "both gone")
        again = one.beam(script, name="second")
        assert again.stdout.readline() == "found\n"


def test_a_beam_that_restarts_is_called_again(start):
    with cluster(start, "--erlang-connect", "back@127.0.0.1") as one:
        script = "until(fun() -> nodes(hidden) =:= [N] end), say(there), receive stop -> ok end"
        for _ in range(2):
            beam = one.beam(script, name="back")
            assert beam.stdout.readline() == "there\n"
            until(lambda: one.figures()["erlang_nodes"] == 1, "connected")
            beam.kill()
            until(lambda: one.figures()["erlang_nodes"] == 0, "gone")


def test_encke_registers_again_when_epmd_restarts(start):
    with cluster(start) as one:
        one.epmd.stop()
        until(lambda: "epmd has ended" in one.server.log, "the end of epmd noticed")
        one.epmd.start()
        one.wait_registered()
        assert one.run("say(net_adm:ping(N))") == ["pong"]


class FakeEpmd:
    """Answers each registration with some bytes, one at a time if need be, and keeps the connection."""

    def __init__(self, *answers, pause=0):
        self.answers, self.pause = answers, pause
        self.requests, self.kept = [], []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        for answer in self.answers:
            connection, _ = self.socket.accept()
            self.requests.append(connection.recv(1024))
            # Who has heard enough may close before the end.
            with contextlib.suppress(OSError):
                for byte in answer:
                    connection.sendall(bytes([byte]))
                    time.sleep(self.pause)
            if answer == REGISTERED:
                self.kept.append(connection)
            else:
                connection.close()

    def stop(self):
        self.socket.close()
        for connection in self.kept:
            connection.close()


REGISTERED = b"\x76\x00\x01\x02\x03\x04"
TAKEN = b"\x76\x01\x00\x00\x00\x00"


def alone(start, tmp_path, epmd, *flags, **options):
    """An Encke that registers with this epmd."""
    cookie = tmp_path / "cookie"
    if not cookie.exists():
        cookie.write_text(COOKIE)
        cookie.chmod(0o400)
    port = ("--erlang-epmd-port", epmd.port)
    name = ("--erlang-name", "encke@127.0.0.1", "--erlang-cookie-file", cookie)
    return start(*name, *port, *flags, **options)


def test_epmd_is_started_where_none_answers(start, port, tmp_path):
    epmd = types.SimpleNamespace(port=port().number)
    environment = {**ENVIRONMENT, "ERL_EPMD_PORT": str(epmd.port), "ERL_EPMD_ADDRESS": "127.0.0.1"}
    try:
        server = alone(start, tmp_path, epmd, "--erlang-start-epmd", env=environment)
        until(lambda: "registered with epmd" in server.log, "epmd started, and registered with it")
        names = subprocess.run(["epmd", "-names"], env=environment, capture_output=True, text=True)
        assert "name encke at port" in names.stdout
        server.stop()
    finally:
        until(
            lambda: "Killed" in subprocess.run(
                ["epmd", "-kill"], env=environment, capture_output=True, text=True
            ).stdout,
            "epmd ended",
        )  # fmt: skip


def test_an_answer_of_epmd_may_come_byte_by_byte(start, tmp_path):
    epmd = FakeEpmd(REGISTERED, pause=0.02)
    server = alone(start, tmp_path, epmd)
    until(lambda: "registered with epmd" in server.log, "registered")
    port = address(server.said["erlang"])[1]
    head = struct.pack(">HBHBBHHH", 18, 120, port, 72, 0, 6, 5, 5)
    assert epmd.requests == [head + b"encke" + b"\x00\x00"]
    epmd.stop()


def test_a_name_that_is_taken_and_what_is_no_epmd_are_said_once_and_tried_again(start, tmp_path):
    epmd = FakeEpmd(TAKEN, TAKEN, b"HTTP", REGISTERED)
    server = alone(start, tmp_path, epmd)
    until(lambda: "registered with epmd" in server.log, "registered in the end")
    assert len(epmd.requests) == 4
    assert server.log.count("already has a node called encke") == 1
    assert server.log.count("is not epmd") == 1
    epmd.stop()


def test_a_connection_survives_idleness_by_ticks(start):
    with cluster(start, "--erlang-tick-time", "2s") as one:
        script = "pong = net_adm:ping(N), timer:sleep(5000), say(nodes(hidden) =:= [N])"
        said = one.run("net_kernel:set_net_ticktime(2, 0)," + script, name="idle")
        assert said == ["true"]


# Configuration


def test_a_cookie_that_others_may_read_is_refused(tmp_path):
    cookie = tmp_path / "cookie"
    cookie.write_text("secret")
    cookie.chmod(0o644)
    said = encke(
        "serve", "--check-config", "--erlang-name", "encke@127.0.0.1", "--erlang-cookie-file", cookie
    )
    assert said.returncode == 2
    assert "others may read the cookie file" in said.stderr and "chmod 400" in said.stderr
    assert "secret" not in said.stderr


def test_the_log_as_json_names_the_node(start):
    with cluster(start, "--log-format", "json") as one:
        one.server.signal()
        assert one.server.wait() == 0
        lines = [json.loads(line) for line in one.server.log.splitlines()]
        (ready,) = [line for line in lines if "erlang_name" in json.dumps(line)]
        fields = ready.get("fields", ready)
        assert fields["erlang_name"] == one.name
        assert fields["erlang"] == one.server.said["erlang"]


@pytest.mark.parametrize("name", ["encke", "@host", "encke@", "en cke@host", "a@b@c"])
def test_a_name_that_is_none_is_refused(name):
    said = encke("serve", "--check-config", "--erlang-name", name)
    assert said.returncode == 2
    assert "like encke@127.0.0.1" in said.stderr


# Bad peers


def refused(one, reason):
    return one.figures()["erlang_refused"][reason]


def logged(one, words):
    return sum(words in line for line in one.server.log.splitlines())


def test_a_wrong_cookie_is_counted_and_logged_once(start):
    with cluster(start) as one:
        for _ in range(3):
            with pytest.raises((EOFError, ConnectionResetError)):
                one.peer(cookie="another")
        until(lambda: refused(one, "cookie") == 3, "three refusals counted")
        until(lambda: logged(one, "another cookie"), "it is logged")
        assert logged(one, "another cookie") == 1
        assert one.run("say(net_adm:ping(N))") == ["pong"]


def test_a_node_that_cannot_be_accepted_for_want_of_descriptors_costs_hardly_anything(start):
    """The listener stays readable while accepting fails, so that a loop without a pause spins."""
    # Fewer than there may be peers without a proof.
    limit = 80
    with cluster(start, nofile=limit) as one:
        waiting = [socket.create_connection(one.address) for _ in range(2 * limit)]
        until(lambda: one.server.descriptors() >= limit - 2, "all descriptors taken")
        written = one.server.log_path.stat().st_size
        spent = measure_cpu(one.server, 2)
        written = one.server.log_path.stat().st_size - written
        assert spent < 0.4, f"{spent} s of CPU in 2 s of waiting"
        assert written < 10_000, f"{written} bytes of log in 2 s of waiting"
        until(lambda: logged(one, "ulimit"), "the warning says what to do")
        for connection in waiting:
            connection.close()
        with contextlib.closing(one.peer()):
            until(lambda: one.figures()["erlang_nodes"] == 1, "a node is accepted again")


def test_other_versions_and_names_are_refused(start):
    with cluster(start) as one:
        old = one.peer(shake=False)
        old.say_name(flags=0)
        assert old.is_closed()
        until(lambda: refused(one, "version") == 1, "the version refused")
        for name in ("nohost", one.name, "a\nb@host"):
            peer = one.peer(shake=False, name=name)
            peer.say_name()
            assert peer.is_closed()
        until(lambda: refused(one, "name") == 3, "the names refused")
        http = one.peer(shake=False)
        http.socket.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        assert http.is_closed()
        until(lambda: refused(one, "handshake") == 1, "what is no handshake refused")


def test_half_a_handshake_and_silence_end_in_time(start):
    with cluster(start, "--erlang-tick-time", "2s") as one:
        began = time.monotonic()
        half = one.peer(shake=False)
        half.say_name()
        silent = one.peer(name="silent@127.0.0.1")
        assert silent.is_closed()
        assert time.monotonic() - began > 1.5
        assert half.is_closed()
        assert time.monotonic() - began > 6
        until(lambda: refused(one, "silent") == 1, "the silent counted")
        until(lambda: refused(one, "handshake_slow") == 1, "the slow counted")


def nest(depth):
    return b"\x68\x01" * depth + b"\x6a"


# Encoded bodies of messages, and what is counted for each.
BOMBS = {
    "a size that lies": (b"\x6d\xff\xff\xff\xff", "term"),
    "a list that lies": (b"\x6c\x7f\xff\xff\xff\x6a", "term"),
    "deep nesting": (nest(1_000_000), "term"),
    "a compressed bomb": (b"\x50\x40\x00\x00\x00" + b"x" * 100, "term"),
    "a cached atom": (b"\x52\x00", "term"),
    "a long atom": (b"\x76\x04\x00" + b"a" * 1024, "term"),
    "an atom that is not UTF-8": (b"\x77\x01\xff", "term"),
    "a huge integer": (b"\x6f\x00\x10\x00\x00\x00" + b"\xff" * (1 << 20), "term"),
    "bytes behind the message": (b"\x6a\x6a", "message"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bad_term_is_refused_and_the_connection_goes_on(shared, bomb):
    body, reason = BOMBS[bomb]
    before = refused(shared, reason)
    peer = shared.peer(name=f"bomber-{list(BOMBS).index(bomb)}@127.0.0.1")
    with Sse(shared.server, "after-the-bomb") as stream:
        peer.send(body)
        peer.send(body)
        peer.send(pair(atom(b"after-the-bomb"), binary(b"still here")))
        assert stream.data() == "still here"
    # Figures are told at the end of a turn, and an event leaves before.
    until(lambda: refused(shared, reason) == before + 2, "both refusals counted")
    peer.close()


def test_messages_that_nobody_understands_are_counted(start):
    with cluster(start) as one:
        said = one.run(
            """
            {nobody, N} ! hello,
            {any, N} ! {id, not_an_iolist},
            {router, N} ! hello,
            {'EXIT', _} = (catch gen_server:call({nobody, N}, hello)),
            say(net_adm:ping(N))
            """
        )
        assert said == ["pong"]
        # The call has monitored nobody, was told so, and its request was sent nevertheless.
        until(lambda: refused(one, "not_understood") == 4, "all counted")
        until(lambda: logged(one, "that are not understood"), "it is logged")
        assert logged(one, "that are not understood") == 1


def test_bad_messages_by_the_thousand_take_no_memory_and_are_logged_once(start):
    with cluster(start) as one:
        peer = one.peer()
        peer.send(pair(atom(b"warm"), binary(b"up")))
        until(lambda: one.figures()["erlang_messages"] == 1, "the first taken")
        before = one.server.resident_bytes()
        for _ in range(20):
            for body, _ in BOMBS.values():
                peer.send(body)
        small = [body for body, _ in BOMBS.values() if len(body) < 10_000]
        for _ in range(2000):
            for body in small:
                peer.send(body)
        total = 20 * len(BOMBS) + 2000 * len(small)
        until(
            lambda: refused(one, "term") + refused(one, "message") == total, "all refusals counted"
        )
        assert one.server.resident_bytes() - before < 16 << 20
        until(lambda: logged(one, "message from peer@127.0.0.1") >= 2, "both reasons are logged")
        assert logged(one, "message from peer@127.0.0.1") == 2
        peer.close()


def test_sizes_of_packets_that_lie_take_no_memory(start):
    """Many peers announce the largest message there may be and send little of it; others have begun one
    in pieces. Callers that are nobody yet cannot announce more than a handshake."""
    with cluster(start) as one:
        before = one.server.resident_bytes()
        peers = [one.peer(name=f"liar{number}@127.0.0.1") for number in range(100)]
        for peer in peers[:50]:
            peer.socket.sendall(struct.pack(">I", 8 << 20) + b"\x83\x44\x00" + b"x" * 1000)
        for peer in peers[50:]:
            peer.packet(b"\x83\x45" + struct.pack(">QQ", 1, 1 << 60) + b"\x00" + b"x" * 1000)
        # As many as there may be.
        strangers = [one.peer(shake=False) for _ in range(60)]
        for stranger in strangers[:30]:
            stranger.socket.sendall(b"\xff\xff" + b"x" * 10_000)
        for stranger in strangers[30:]:
            stranger.socket.sendall(b"\x04\x00N" + b"x" * 1000)
        until(lambda: refused(one, "handshake") == 30, "the handshakes refused")
        assert one.run("say(net_adm:ping(N))") == ["pong"]
        assert one.server.resident_bytes() - before < 16 << 20
        for peer in peers + strangers:
            peer.close()
        until(lambda: one.figures()["erlang_nodes"] == 0, "all gone")


def test_messages_without_end_take_no_more_than_their_bound(start):
    """All that may be begun is begun, in pieces and whole, and nothing of it comes to an end."""
    with cluster(start) as one:
        before = one.server.resident_bytes()
        peer = one.peer()
        piece = b"x" * 60_000
        for sequence in range(300):
            peer.packet(b"\x83\x45" + struct.pack(">QQ", sequence, 1000) + b"\x00" + piece)
        until(lambda: refused(one, "too_large") >= 150, "what is beyond the bound refused")
        peer.socket.sendall(struct.pack(">I", 8 << 20) + bytes((8 << 20) - 1))
        assert one.run("say(net_adm:ping(N))") == ["pong"]
        assert one.server.resident_bytes() - before < 16 << 20
        peer.close()


def test_atoms_without_end_take_no_memory(start):
    # The history keeps the ids of its events.
    with cluster(start, "--history-bytes", "0") as one:
        peer = one.peer(name="atoms@127.0.0.1")
        before = one.server.resident_bytes()
        for number in range(200_000):
            peer.send(pair(atom(b"atom_%d" % number), binary(b"x")))
        with Sse(one.server, "after-the-atoms") as stream:
            peer.send(pair(atom(b"after-the-atoms"), binary(b"x")))
            assert stream.data() == "x"
        assert one.server.resident_bytes() - before < 16 << 20
        peer.close()


def test_a_message_of_a_hundred_megabytes_passes_by(shared):
    before, refusals = shared.server.resident_bytes(), refused(shared, "too_large")
    peer = shared.peer(name="large@127.0.0.1")
    size, block = 100 << 20, bytes(1 << 20)
    peer.socket.sendall(struct.pack(">I", size))
    for _ in range(size // len(block)):
        peer.socket.sendall(block)
    with Sse(shared.server, "after-the-large") as stream:
        peer.send(pair(atom(b"after-the-large"), binary(b"x")))
        assert stream.data() == "x"
    until(lambda: refused(shared, "too_large") == refusals + 1, "the refusal counted")
    peer.close()
    # The same from a BEAM, which sends it in pieces.
    said = shared.run(
        """
        {any, N} ! {large, binary:copy(<<"x">>, 100 bsl 20)},
        say(call(router, {send, nobody, x}))
        """
    )
    assert said == ["{ok,0}"]
    until(lambda: refused(shared, "too_large") == refusals + 2, "both refusals counted")
    assert shared.server.resident_bytes() - before < 16 << 20


def test_large_messages_in_pieces_arrive_whole(shared):
    """A BEAM cuts what is larger than 64 KiB."""
    said = shared.run(
        """
        Pairs = [{I, {whole, I rem 3}} || I <- lists:seq(1, 60000)],
        say(call(subsmanager, {add_subscriptions, Pairs})),
        say(lists:sum([length(call(subsmanager, {get_subscribers, {whole, R}})) || R <- [0, 1, 2]]))
        """
    )
    assert said == ["ok", "60000"]


@pytest.mark.parametrize("connects_first", [False, True])
def test_a_list_of_any_length_is_changed_in_one_call(start, tmp_path, connects_first):
    """450,000 subscriptions are 16 MB, more than one message may have; other calls pass meanwhile. A BEAM sends them
    in fragments, but in one packet if they are what connects the nodes."""
    with cluster(start, "--data", tmp_path / "data") as one:
        before = one.server.resident_bytes()
        said = one.run(
            ("pong = net_adm:ping(N)," if connects_first else "")
            + """
            Pairs = [{subscription, I, {celebrity, I rem 9}} || I <- lists:seq(1, 450000)],
            Call = fun(Verb) -> gen_server:call({subsmanager, N}, {Verb, Pairs}, infinity) end,
            Count = fun() -> lists:sum([length(call(subsmanager, {get_subscribers, {celebrity, R}})) || R <- lists:seq(0, 8)]) end,
            Main = self(),
            spawn(fun() -> Main ! {added, Call(add_subscriptions)} end),
            Others = fun Loop(Max) ->
                receive
                    {added, Said} -> say(Said), Max
                after 0 ->
                    {Micros, pong} = timer:tc(net_adm, ping, [N]),
                    Loop(max(Max, Micros))
                end
            end,
            Slowest = Others(0),
            say(Slowest < 20000000),
            say(Count()),
            say(Call(remove_subscriptions)),
            say(Count())
            """,
            timeout=200,
        )
        assert said == ["ok", "true", "450000", "ok", "0"]
        assert refused(one, "too_large") == 0
        assert one.server.resident_bytes() - before < 300 << 20


def test_a_list_that_breaks_says_where(shared):
    """A caller that waits without a time limit must not wait for ever."""
    said = shared.run(
        """
        Pairs = [{I, broken} || I <- lists:seq(1, 250000)] ++ [no_pair] ++ [{I, broken} || I <- lists:seq(1, 200000)],
        {error, Why} = gen_server:call({subsmanager, N}, {add_subscriptions, Pairs}, infinity),
        say(Why),
        {match, [Done]} = re:run(Why, "at least the first ([0-9]+)", [{capture, all_but_first, list}]),
        say(length(call(subsmanager, {get_subscribers, broken})) =:= list_to_integer(Done)),
        {error, Cast} = gen_server:call({router, N}, {add_subscriptions, Pairs}, infinity),
        say(Cast),
        say(net_adm:ping(N))
        """
    )
    assert "subscription 250001: it is neither" in said[0] and "safe to send them again" in said[0]
    assert said[1] == "true"
    assert "sent to subsmanager" in said[2]
    assert said[3] == "pong"


def test_a_call_that_is_too_large_is_answered(shared):
    """Only lists of subscriptions are read piecewise."""
    said = shared.run(
        """
        {error, Why} = gen_server:call({router, N}, {send, large, binary:copy(<<"x">>, 12 bsl 20)}, infinity),
        say(binary:match(Why, <<"several calls">>) =/= nomatch)
        """
    )
    assert said == ["true"]


def test_large_calls_of_more_processes_than_there_is_room_for_are_all_answered(shared):
    """Their fragments come in turn over one connection, of which 1,024 messages and 8 MiB are held. This BEAM lets each
    process wait after a fragment."""
    before = refused(shared, "too_large")
    said = shared.run(
        """
        pong = net_adm:ping(N),
        Main = self(),
        Body = binary:copy(<<"x">>, 300000),
        Call = fun() -> Main ! {answer, gen_server:call({router, N}, {send, crowd, Body}, infinity)} end,
        [spawn(Call) || _ <- lists:seq(1, 2000)],
        Answers = [receive {answer, {error, Why}} -> Why end || _ <- lists:seq(1, 2000)],
        say(length(Answers)),
        say(length([Why || Why <- Answers, binary:match(Why, <<"several calls">>) =/= nomatch]) > 0),
        say(net_adm:ping(N))
        """,
        emulator="+zdbbl 1",
    )
    assert said == ["2000", "true", "pong"]
    assert refused(shared, "too_large") > before


def test_a_call_to_no_process_is_answered_once(shared):
    """A caller that monitors the process learns it from the monitor, and its node drops the answer."""
    said = shared.run(
        """
        Tag = make_ref(),
        {nobody, N} ! {'$gen_call', {self(), Tag}, hello},
        receive {Tag, {error, Why}} -> say(binary:match(Why, <<"no such process">>) =/= nomatch) end,
        {'EXIT', {noproc, _}} = (catch gen_server:call({nobody, N}, hello)),
        pong = net_adm:ping(N),
        receive More -> say(More) after 0 -> say(nothing) end
        """
    )
    assert said == ["true", "nothing"]


def test_integers_of_64_bits_are_ids(shared):
    said = shared.run(
        """
        Ids = [1 bsl 53 - 1, 1 bsl 53, 1 bsl 63 - 1, 1 bsl 63, 1 bsl 80],
        ok = call(subsmanager, {add_subscriptions, [{Id, wide} || Id <- Ids]}),
        say(lists:sort(call(subsmanager, {get_subscribers, wide})) =:= Ids),
        ok = call(router, {login, 1 bsl 62, self()}),
        receive {router_msg, Msg} -> say(Msg) after 0 -> ok end,
        say(call(router, {send, <<"4611686018427387904">>, same}))
        """
    )
    assert said == ["true", "{ok,1}"]
    shared.server.subscribe("9223372036854775807", "wide-over-http")
    said = shared.run("say(call(subsmanager, {get_subscribers, 'wide-over-http'}))")
    assert said == ["[9223372036854775807]"]


def test_improper_lists_are_refused_as_lists_and_kept_as_terms(shared):
    said = shared.run(
        """
        {error, Why} = call(subsmanager, {add_subscriptions, [{a, b} | c]}),
        say(is_binary(Why)),
        ok = call(router, {login, improper, self()}),
        {ok, 1} = call(router, {send, improper, [a | b]}),
        receive {router_msg, Msg} -> say(Msg) end
        """
    )
    assert said == ["true", "[a|b]"]


def test_a_node_that_reads_nothing_costs_no_more_than_its_bounds(start):
    """Its deliveries are shed and said; others feel nothing."""
    with cluster(start, "--history-bytes", "0") as one:
        peer = one.peer(name="deaf@127.0.0.1")
        login = b"\x68\x03" + atom(b"login") + atom(b"deaf") + peer.pid()
        reference = b"\x5a\x00\x01" + atom(peer.name) + struct.pack(">II", 77, 1)
        caller = pair(peer.pid(), reference)
        peer.send(b"\x68\x03" + atom(b"$gen_call") + caller + login, to=b"router")
        until(lambda: one.server.sessions("deaf"), "logged in")
        before = one.server.resident_bytes()
        event = "x" * 60_000
        shed = 0
        for _ in range(1000):
            shed += one.server.publish("deaf", event)["shed"]
        assert shed > 0
        assert one.server.resident_bytes() - before < 24 << 20
        assert one.run("say(net_adm:ping(N))") == ["pong"]
        peer.close()


def test_a_node_whose_answers_wait_is_read_again_when_it_has_taken_them(start):
    """Its socket signals no more: its calls have arrived already."""
    # More calls than are read at a time, with answers of 100 kB.
    calls, subscribers, creation = 4000, 20_000, b"\x5e\xaf\x00\xd5"
    with cluster(start) as one:
        one.server.post("/v1/subscriptions", "".join(f"{n} many\n" for n in range(subscribers)).encode())
        peer = one.peer(name="late@127.0.0.1")
        call = pair(atom(b"get_subscribers"), atom(b"many"))
        sent = 0
        for number in range(calls):
            reference = b"\x5a\x00\x02" + atom(peer.name) + struct.pack(">I", 1) + creation + struct.pack(">I", number)
            payload = b"\x68\x03" + atom(b"$gen_call") + pair(peer.pid(), reference) + call
            peer.send(payload, to=b"subsmanager")
            sent += len(payload)
        read = [0, -1]

        def is_paused():
            read[:] = [one.figures()["bytes_read"], read[0]]
            return read[0] == read[1]

        until(is_paused, "the node is read no more", pause=0.3)
        assert read[0] < sent
        answered, piece = set(), b""
        while len(answered) < calls:
            received = peer.socket.recv(1 << 20)
            assert received, "the node was cut off"
            piece = piece[-7:] + received
            answered.update(re.findall(re.escape(creation) + b"(....)", piece, re.DOTALL))
        peer.close()


def test_two_connections_of_one_name_leave_one(shared):
    """A node that comes back while its old connection seems alive says so, and is believed."""
    first = shared.peer(name="twice@127.0.0.1")
    second = shared.peer(name="twice@127.0.0.1", shake=False)
    second.say_name()
    assert second.read_short() == b"salive"
    second.write_short(b"strue")
    second.prove(second.read_short())
    assert second.read_short()[:1] == b"a"
    assert first.is_closed()
    second.close()


def test_the_wire_of_version_5_is_spoken_where_it_is_asked_for(shared):
    peer = Peer(shared.address, shared.name, name="old@127.0.0.1", shake=False)
    low = FLAGS & 0xFFFFFFFF
    peer.write_short(b"n" + struct.pack(">HI", 5, low) + peer.name)
    assert peer.read_short() == b"sok"
    challenge = peer.read_short()
    assert challenge[:1] == b"N"
    peer.write_short(b"c" + struct.pack(">II", FLAGS >> 32, 77))
    peer.prove(challenge, COOKIE)
    assert peer.read_short()[:1] == b"a"
    with Sse(shared.server, "from-version-5") as stream:
        peer.send(pair(atom(b"from-version-5"), binary(json.dumps([1]).encode())))
        assert stream.data() == "[1]"
    peer.close()
