"""Clients that publish over WebSocket: by right only, within limits, and each event is answered."""

import contextlib
import json
import socket
import threading

import pytest
from websockets.exceptions import ConnectionClosed

from support.http import Sse
from support.program import encke
from support.wait import PATIENCE, until
from test_identity_browser import guarded, secret_file, token  # noqa: F401
from test_websocket import UPGRADE, Stranger, event, frame, opened

WRITER = {"sub": "writer", "encke": {"publish": ["chat/*", 7]}}


def session(server, path="/ws", **claims):
    """A client with a token."""
    headers = {"Authorization": "Bearer " + token(**(claims or WRITER))}
    return opened(server.public, path, additional_headers=headers)


def publish(client, subject, data, **more):
    client.send(json.dumps({"publish": {"subject": subject, "data": data, **more}}))
    return event(client)


def id_of(answer):
    assert answer["type"] == "published", answer
    return answer["data"]["id"]


@pytest.fixture
def publishing(guarded):  # noqa: F811
    return lambda *flags: guarded("--client-publish", *flags)


def test_events_of_clients_are_events_as_others(publishing):
    server = publishing()
    server.subscribe("reader", "chat/1")
    reader = token(sub="reader")
    with Sse(server, "", f"Authorization: Bearer {reader}") as stream, session(server) as writer:
        first = publish(writer, "chat/1", "hello", type="note", ref="a")
        assert first["data"]["ref"] == "a"
        assert stream.event() == ("note", "hello", id_of(first))
        id_of(publish(writer, "chat/1", {"a": [1, None]}))
        assert json.loads(stream.data()) == {"a": [1, None]}
        receipt = server.publish("chat/1", "from the backend")
        assert receipt["written"] == 1 and stream.data() == "from the backend"
    stats = server.stats()
    assert stats["published"]["client"] == 2 and stats["totals"]["client_publishes"]["accepted"] == 2
    assert server.api.get("/v1/history/chat%2F1").json()["events"][0]["id"] == id_of(first)


@pytest.mark.parametrize("sync", ["100ms", "receipt"])
def test_an_event_that_was_answered_survives_a_kill(publishing, tmp_path, secret_file, sync):  # noqa: F811
    flags = ("--history-dir", tmp_path / "history", "--history-sync", sync)
    server = publishing(*flags)
    with session(server) as writer:
        ids = [id_of(publish(writer, "chat/1", str(number))) for number in range(10)]
    server.kill()
    server = publishing(*flags)
    events = server.api.get("/v1/history/chat%2F1").json()["events"]
    assert [found["id"] for found in events] == ids


def test_who_may_not_publish_is_told_why(publishing, guarded):  # noqa: F811
    server = publishing("--tickets")
    with session(server) as writer:
        for subject in ["writer", "news", "chat", "70", "*"]:
            answer = publish(writer, subject, "x", ref="r")
            assert answer["type"] == "error" and answer["data"]["ref"] == "r", subject
            assert "encke.publish" in answer["data"]["reason"]
        id_of(publish(writer, 7, "x"))
    ticket = server.post("/v1/tickets", '{"ids":["chat/1"],"ttl":"1m"}')["ticket"]
    with opened(server.public, f"/ws?ticket={ticket}") as reader:
        assert publish(reader, "chat/1", "x")["type"] == "error"
    assert server.stats()["published"]["client"] == 1
    with session(guarded()) as writer:
        assert "--client-publish" in publish(writer, "chat/1", "x")["data"]["reason"]


def test_a_server_without_keys_is_not_started_with_it(start):
    for flags in [("--tickets",), ("--allow-anonymous",), ()]:
        ended = encke("serve", "--client-publish", *flags)
        assert ended.returncode != 0 and "--client-publish needs keys" in ended.stderr


def test_a_flood_is_refused_and_harms_no_other(publishing):
    server = publishing()
    with session(server) as writer, session(server, sub="reader") as reader:
        message = json.dumps({"publish": {"subject": "chat/1", "data": "x"}})
        for _ in range(90):
            writer.send(message)
        kinds = [event(writer)["type"] for _ in range(90)]
        assert 50 <= kinds.count("published") <= 90 and kinds.count("error") >= 0
        server.publish("reader", "still here")
        assert event(reader)["data"] == "still here"
    limited = server.stats()["totals"]["client_publishes"]["limited"]
    assert kinds.count("error") == limited


def test_a_subject_with_many_subscribers_holds_up_no_session(publishing):
    server = publishing()
    edges = "".join(f"{number} 7\n" for number in range(1_000_000, 1_200_000))
    answer = server.api.post("/v1/subscriptions", content=edges, headers={"Content-Type": "text/plain"})
    assert answer.is_success, answer.text
    with session(server) as writer, session(server, sub="reader") as reader:
        for _ in range(40):
            writer.send('{"publish":{"subject":7,"data":"x"}}')
        # The worker answers at once what needs no plan.
        reader.send("rubbish")
        assert event(reader)["type"] == "error"
        assert [event(writer)["type"] for _ in range(40)] == ["published"] * 40


@pytest.mark.parametrize(
    "rubbish",
    [
        '{"publish":1}',
        '{"publish":{"subject":"chat/1"}}',
        '{"publish":{"subject":"","data":1}}',
        '{"publish":{"subject":"chat/1","data":"a","type":"a\\u0000"}}',
        '{"publish":{"subject":"chat/1","data":"%","encoding":"base64"}}',
        '{"publish":{"subject":"chat/1","data":[1,}}',
        '{"publish":{"subject":"chat/1","data":%s1%s}}' % ("[" * 9000, "]" * 9000),
        '{"publish":{"subject":"chat/1","data":"%s"}}' % ("x" * 2000),
    ],
    ids=range(8),
)
def test_rubbish_is_refused_and_the_session_goes_on(publishing, rubbish):
    server = publishing("--event-bytes", "1KiB", "--history-bytes", "1MiB")
    with session(server) as writer:
        writer.send(rubbish)
        assert event(writer)["type"] == "error"
        id_of(publish(writer, "chat/1", "x"))
    assert server.stats()["published"]["client"] == 1


def test_a_stranger_without_a_token_publishes_nothing(publishing):
    server = publishing()
    with socket.create_connection(server.public, timeout=PATIENCE) as stranger:
        said = frame(0x81, b'{"publish":{"subject":"chat/1","data":"x"}}')
        head = f"GET /ws/chat%2F1 HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n"
        stranger.sendall(head.encode() + said)
        assert stranger.recv(4096).startswith(b"HTTP/1.1 401 ")
    assert server.stats()["published"]["client"] == 0


def test_an_open_server_takes_no_events(server):
    with Stranger(server) as stranger:
        stranger.socket.sendall(frame(0x81, b'{"publish":{"subject":"stranger","data":"x"}}'))
        received = b""
        while b"--client-publish" not in received:
            received += stranger.socket.recv(4096)


def test_a_drain_leaves_no_event_without_its_answer_or_its_close(publishing):
    server = publishing("--drain-timeout", "5s")
    answers = []

    def listen(client):
        with contextlib.suppress(ConnectionClosed):
            while True:
                answers.append(json.loads(client.recv(timeout=PATIENCE)))

    with session(server) as writer:
        listener = threading.Thread(target=listen, args=[writer])
        listener.start()
        for number in range(40):
            writer.send(json.dumps({"publish": {"subject": "chat/1", "data": "x", "ref": str(number)}}))
        until(lambda: any(answer.get("type") == "published" for answer in answers), "the first answer")
        server.signal()
        listener.join(PATIENCE)
        assert not listener.is_alive() and writer.protocol.close_rcvd.code == 1001
    told = [answer["data"]["ref"] for answer in answers if "type" in answer]
    assert len(told) == len(set(told))
