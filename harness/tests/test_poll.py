"""Long polling on real sockets."""

import json
import threading

import httpx
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from support.http import PLAIN, Connection, elapsed
from support.wait import PATIENCE, until


@pytest.fixture
def keeping(start):
    return start("--history-bytes", "1MiB")


def online(server, subject):
    """Whether an id that has no other subscribers is online, by the receipt of an event to it."""
    return server.send(subject, "online?")["online"] == 1


def test_a_client_that_polls_on_one_connection_gets_everything_once_and_in_order(keeping):
    with httpx.Client(base_url=keeping.public_url, timeout=PATIENCE, **PLAIN) as client:
        answer = client.get("/poll/rj?wait=0")
        assert (answer.status_code, answer.content) == (204, b"")
        cursor = answer.headers["Encke-Cursor"]
        published = []

        def publish():
            for number in range(2500):
                published.append(keeping.publish("rj", str(number))["id"])

        publisher = threading.Thread(target=publish)
        publisher.start()
        got = []
        while len(got) < 2500:
            answer = client.get("/poll/rj", params={"cursor": cursor})
            assert answer.status_code == 200
            events = answer.json()
            assert 1 <= len(events) <= 1000
            got += events
            cursor = answer.headers["Encke-Cursor"]
            assert cursor == events[-1]["id"]
        publisher.join()
    assert [event["data"] for event in got] == [str(number) for number in range(2500)]
    assert [event["id"] for event in got] == published


def test_many_events_come_in_bounded_answers(keeping):
    cursor = keeping.publish("rj", "first")["id"]
    lines = "".join(f'{{"subject":"rj","data":{number}}}\n' for number in range(2300))
    assert keeping.api.post("/v1/publish", content=lines.encode()).is_success
    counts = []
    with Connection(keeping) as connection:
        while sum(counts) < 2300:
            connection.get(f"/poll/rj?cursor={cursor}&wait=0")
            response = connection.response()
            cursor = response.fields["Encke-Cursor"]
            counts.append(response.text.count('"data"'))
            assert len(response.body) < 65536 + 200
    assert max(counts) <= 1000 and len(counts) >= 3


def test_a_poll_waits_as_long_as_it_asks_for(keeping):
    with Connection(keeping) as connection:

        def poll():
            connection.get("/poll/rj?wait=1")
            return connection.response()

        seconds, response = elapsed(poll)
        assert response.status == 204 and seconds >= 0.9


def test_a_batch_of_cloud_events(keeping):
    receipt = keeping.publish("rj", '{"song":7}', kind="track", content_type="application/json")
    with Connection(keeping) as connection:
        connection.get("/poll/rj?cursor=earliest", "Accept: application/cloudevents+json")
        response = connection.response()
    assert response.fields["Content-Type"] == "application/cloudevents-batch+json"
    (element,) = json.loads(response.body)
    event = JSONFormat().read(CloudEvent, json.dumps(element))
    assert (event.get_id(), event.get_type(), event.get_data()) == (receipt["id"], "track", {"song": 7})


def test_a_client_is_online_between_polls_while_its_connection_lives(keeping):
    with Connection(keeping) as connection:
        connection.get("/poll/alice?wait=0")
        assert connection.response().status == 204
        assert online(keeping, "alice")
        (session,) = keeping.sessions("alice")
        assert session["transport"] == "poll"
    until(lambda: not online(keeping, "alice"), "it is offline")


def test_a_closed_session_and_the_end_of_the_server_answer_the_poll(start):
    server = start("--history-bytes", "1MiB", "--drain-timeout", "3s")
    with Connection(server) as kicked:
        kicked.get("/poll/alice?wait=60")
        until(lambda: server.stats()["online"] == 1, "it waits")
        server.api.delete("/v1/sessions/alice")
        response = kicked.response()
        assert (response.status, response.fields["Connection"]) == (204, "close")
    with Connection(server) as drained:
        drained.get("/poll/bob?wait=60")
        until(lambda: online(server, "nobody") is False and server.stats()["online"] == 1, "it waits")
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        response = drained.response()
        assert (response.status, response.fields["Connection"]) == (204, "close")
        assert response.fields["Encke-Cursor"]
    stopping.join()


def test_pages_of_other_origins_can_read_the_cursor(start):
    server = start("--history-bytes", "1MiB", "--cors-origin", "https://app.example")
    with Connection(server) as connection:
        for wait in ["0", "1"]:
            connection.get(f"/poll/rj?wait={wait}", "Origin: https://app.example")
            fields = connection.response().fields
            assert fields["Access-Control-Allow-Origin"] == "https://app.example"
            assert "Encke-Cursor" in fields["Access-Control-Expose-Headers"]


def test_without_a_history_there_are_no_polls(start):
    server = start("--history-bytes", "0")
    with Connection(server) as connection:
        connection.get("/poll/rj?wait=0")
        response = connection.response()
        assert response.status == 501 and "--history-bytes" in response.text


def test_clients_that_leave_in_the_middle_leave_nothing_behind(keeping):
    before = keeping.baseline()
    for number in range(50):
        connection = Connection(keeping)
        connection.get(f"/poll/{number},rj?wait=60")
        if number % 2:
            connection.reset()
        else:
            connection.close()
    keeping.publish("rj", "x")
    until(lambda: keeping.stats()["online"] == 0, "all have gone")
    now = keeping.baseline()
    before["dictionary"] = now["dictionary"]  # The history holds the subject.
    keeping.until_as(before)
