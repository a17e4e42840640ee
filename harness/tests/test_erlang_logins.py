"""An Erlang process that decides on logins of clients: streams, polls, and what WebSocket clients add."""

import contextlib
import json
import shutil
import threading
import time

import pytest

from support.erlang import cluster
from support.http import Connection, Ndjson, Sse
from support.program import encke
from support.wait import until
from test_websocket import event as notice
from test_websocket import opened

pytestmark = pytest.mark.skipif(not shutil.which("escript"), reason="harness/tests/setup installs Erlang")

CHECK = ["--erlang-login-check", "gatekeeper,auth@127.0.0.1"]

# A gen_server in all but name: lets in whoever asks for ids that begin with `ok`, is silent about `late`, and says
# what it is asked.
GATEKEEPER = """
gatekeeper() ->
    receive
        {'$gen_call', From, {login, Ids, Client}} ->
            say({Ids, maps:get(transport, Client), maps:get(subject, Client), is_binary(maps:get(address, Client))}),
            case [text(Id) || Id <- Ids] of
                ["late" ++ _ | _] -> ok;
                Texts ->
                    May = lists:all(fun(Text) -> lists:prefix("ok", Text) end, Texts),
                    gen_server:reply(From, case May of true -> ok; false -> {error, stranger} end)
            end,
            gatekeeper();
        stop -> ok
    end.
text(Id) when is_integer(Id) -> integer_to_list(Id);
text(Id) when is_binary(Id) -> binary_to_list(Id);
text(Id) -> atom_to_list(Id).
"""


@pytest.fixture
def guarded(start):
    """A cluster whose gatekeeper runs, and what it has said."""
    with contextlib.ExitStack() as stack:

        def guarded(*flags):
            one = stack.enter_context(cluster(start, *CHECK, *flags))
            one.keeper = keeper(one)
            return one

        yield guarded


def keeper(one):
    beam = one.beam(
        "register(gatekeeper, self()), until(fun() -> nodes(hidden) =:= [N] end), say(ready), gatekeeper()",
        name="auth",
        functions=GATEKEEPER,
    )
    assert beam.stdout.readline() == "ready\n"
    return beam


def status(one, target):
    with Connection(one.server) as connection:
        connection.get(target)
        return connection.head()[0]


def denied(one, reason):
    return one.server.totals()["logins_denied"][reason]


def test_a_client_is_let_in_only_by_the_process(guarded):
    one = guarded()
    with Sse(one.server, "ok-alice,okbob") as stream:
        assert one.keeper.stdout.readline() == '{[<<"ok-alice">>,<<"okbob">>],sse,undefined,true}\n'
        assert one.server.publish("ok-alice", "hello")["written"] == 1
        assert stream.data() == "hello"
    for path in ("events", "stream", "test", "poll"):
        assert status(one, f"/{path}/ok-alice,mallory") == 403
        assert one.keeper.stdout.readline().startswith('{[<<"ok-alice">>,<<"mallory">>],')
    assert not one.server.sessions("mallory") and not one.server.sessions("ok-alice")
    assert one.server.totals()["logins"] == 1


def test_each_request_of_a_connection_is_asked_about_and_polls_once(guarded):
    one = guarded()
    with Connection(one.server) as connection:
        for _ in range(3):
            connection.get("/poll/ok-carol?wait=0")
            assert connection.response().status == 204
        # What was decided about one is not taken for another.
        connection.get("/poll/carol?wait=0")
        assert connection.response().status == 403
        connection.get("/poll/ok-carol,carol?wait=0")
        assert connection.response().status == 403
        connection.get("/poll/ok-dave?wait=0")
        assert connection.response().status == 204
    asked = [one.keeper.stdout.readline().partition("],")[0] for _ in range(4)]
    assert asked == [
        '{[<<"ok-carol">>',
        '{[<<"carol">>',
        '{[<<"ok-carol">>,<<"carol">>',
        '{[<<"ok-dave">>',
    ]


def test_what_a_websocket_client_adds_is_asked_about(guarded):
    one = guarded()
    with opened(one.server.public, "/ws/ok-erin") as client:
        client.send(json.dumps({"subscribe": ["ok-news", "ok-erin"]}))
        assert notice(client)["type"] == "subscribed"
        client.send(json.dumps({"subscribe": ["ok-more", "secret"]}))
        refused = notice(client)
        assert refused["type"] == "error" and "does not let" in json.dumps(refused)
        # Nothing to ask: it has that.
        client.send(json.dumps({"subscribe": ["ok-news"]}))
        assert notice(client)["type"] == "subscribed"
    asked = [one.keeper.stdout.readline().partition("],")[0] for _ in range(3)]
    assert asked == ['{[<<"ok-erin">>', '{[<<"ok-news">>', '{[<<"ok-more">>,<<"secret">>']
    assert not one.server.sessions("secret")


def test_without_an_answer_a_client_comes_back_later_and_holds_up_nobody(guarded):
    one = guarded("--erlang-login-timeout", "500ms")
    took = []

    def late(number):
        began = time.monotonic()
        took.append((status(one, f"/stream/late-{number}"), time.monotonic() - began))

    threads = [threading.Thread(target=late, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    with Ndjson(one.server, "ok-fred") as stream:
        one.server.publish("ok-fred", "served")
        assert stream.data() == "served"
    for thread in threads:
        thread.join()
    assert {found for found, _ in took} == {503}
    assert min(seconds for _, seconds in took) >= 0.4
    assert denied(one, "undecided") == 20
    assert one.server.totals()["erlang_logins_unanswered"] == 20


def test_without_the_process_nobody_gets_in_unless_that_is_configured(start):
    with cluster(start, *CHECK) as one:
        assert status(one, "/stream/ok-gina") == 503
        # An EventSource comes back by itself.
        with Connection(one.server) as connection:
            connection.get("/events/ok-gina", "Accept: text/event-stream")
            assert connection.head()[0] in (200, 503)
        assert not one.server.sessions("ok-gina")
        beam = keeper(one)
        assert status(one, "/stream/ok-gina") == 200
        assert status(one, "/stream/gina") == 403
        beam.kill()
        beam.wait()
        until(lambda: one.figures()["erlang_nodes"] == 0, "the gatekeeper gone")
        assert status(one, "/stream/ok-gina") == 503
    with cluster(start, *CHECK, "--erlang-login-default", "accept") as one:
        assert status(one, "/stream/gina") == 200


def test_a_stranger_node_cannot_answer_for_the_process(guarded):
    """Another node of the cluster sends answers with tags that it guesses, and a question stays open."""
    one = guarded("--erlang-login-timeout", "2s")
    forger = one.beam(
        """
        Router = call(router, pid),
        Creation = binary:part(term_to_binary(Router), byte_size(term_to_binary(Router)), -4),
        Node = atom_to_binary(N),
        Tag = fun(Number) ->
            binary_to_term(<<131, 90, 3:16, 119, (byte_size(Node)), Node/binary, Creation/binary, 16#3ffff:32, Number:32, 0:32>>)
        end,
        say(ready),
        [begin [Router ! {Tag(Number), ok} || Number <- lists:seq(1, 20)], timer:sleep(5) end || _ <- lists:seq(1, 1000)]
        """,
        name="forger",
    )
    assert forger.stdout.readline() == "ready\n"
    assert status(one, "/stream/late-harry") == 503
    assert status(one, "/stream/harry") == 403
    assert one.figures()["erlang_refused"]["not_understood"] > 0
    assert one.server.totals()["logins"] == 0
    forger.kill()


def test_a_flood_of_logins_is_bounded_and_ends(guarded):
    one = guarded()
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(Connection(one.server)) for _ in range(1500)]
        for number, connection in enumerate(waiting):
            connection.get(f"/stream/late-{number}")
        # Those beyond the bound are answered at once.
        until(lambda: denied(one, "undecided") >= 1500 - 1024, "the rest answered")
        assert {connection.head()[0] for connection in waiting} == {503}
    with Sse(one.server, "ok-ida") as stream:
        one.server.publish("ok-ida", "x")
        assert stream.data() == "x"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--erlang-login-check", "gatekeeper"], "gatekeeper,auth@127.0.0.1"),
        (["--erlang-login-check", "gatekeeper,auth@h"], "--erlang-name"),
        (["--erlang-login-timeout", "5s"], "50ms to 4s"),
        (["--erlang-login-default", "maybe"], "refuse or accept"),
    ],
)
def test_a_check_that_is_none_is_refused(flags, words):
    said = encke("serve", "--check-config", *flags)
    assert said.returncode == 2 and words in said.stderr, said.stderr
