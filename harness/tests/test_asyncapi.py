"""The description of the public listener: valid, and true of what clients get."""

import asyncio
import json

import httpx
import jsonschema
import pytest
import websockets
import websockets.sync.client

from support.http import PLAIN, Connection, Ndjson, Sse
from support.node import TESTS
from support.wait import PATIENCE, until
from test_identity_browser import secret_file, token  # noqa: F401

SCHEMA = TESTS / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0.json"
BINARY = "application/octet-stream"


@pytest.fixture(scope="module")
def document(server):
    answer = httpx.get(f"{server.public_url}/asyncapi.json", timeout=PATIENCE, **PLAIN)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    return answer.json()


def check(document, schema, instance):
    """Validates what a client got. References lead into the document."""
    schema = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(instance)


def test_the_description_is_valid(document):
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    validator.validate(document)
    broken = {**document, "channels": {"events": {"adress": "/events"}}}
    assert not validator.is_valid(broken), "the check can fail"


def test_the_description_has_every_stream(document):
    addresses = {channel["address"] for channel in document["channels"].values()}
    assert addresses == {f"/{path}/{{ids}}" for path in ["events", "stream", "test", "poll", "ws"]}


def test_objects_are_as_described(document, start):
    server = start("--history-bytes", "1MiB")
    with Ndjson(server, "rj,7?cursor=garbage") as stream, Ndjson(server, "rj?format=cloudevents") as cloud:
        server.publish("rj", "text", kind="note")
        server.publish("rj", b"\xff\x00", content_type=BINARY)
        server.publish("7", "[1]", content_type="application/json")
        check(document, "position", json.loads(stream.line()))
        check(document, "reset", json.loads(stream.line()))
        check(document, "position", json.loads(stream.line()))
        for _ in range(3):
            check(document, "event", stream.event())
        check(document, "position", json.loads(cloud.line()))
        for _ in range(2):
            check(document, "cloudEvent", cloud.event())
    for format, schema in [("json", "batch"), ("cloudevents", "cloudEventBatch")]:
        with Connection(server) as connection:
            connection.get(f"/poll/rj?cursor=x&format={format}")
            response = connection.response()
            check(document, schema, json.loads(response.body))
            message = document["components"]["messages"][schema]
            expected = message.get("contentType", document["defaultContentType"])
            assert response.fields["Content-Type"] == expected


def test_messages_of_a_websocket_are_as_described(document, start):
    server = start("--history-bytes", "1MiB")

    async def talk():
        url = server.public_url.replace("http", "ws") + "/ws/rj"
        async with websockets.connect(url, proxy=None) as socket:
            check(document, "position", json.loads(await socket.recv()))
            for message, schema in [
                ({"subscribe": ["news", 7]}, "subscribe"),
                ({"unsubscribe": ["news"]}, "unsubscribe"),
            ]:
                check(document, schema, message)
                await socket.send(json.dumps(message))
                check(document, "done", json.loads(await socket.recv()))
            await socket.send("{}")
            check(document, "error", json.loads(await socket.recv()))

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


def test_notices_of_presence_are_as_described(document, start):
    server = start("--presence", "--presence-delay", "1s")
    for subscriber in ("alice", "bob"):
        for subject in ("rj", 7):
            server.subscribe(subscriber, subject)

    def notices(read):
        """The notices of one who follows `rj` and 7, until both have come and gone."""
        found, state = [], set()
        while len(state) < 4:
            notice = read()
            if notice.get("type") in ("presence", "online", "offline"):
                check(document, notice["type"], notice)
                found.append(notice["type"])
                if found[-1] != "presence":
                    state.add((found[-1], notice["data"]["id"]))
                elif len(found) == 1:
                    Ndjson(server, "rj,7").close()
        assert found[0] == "presence" and state == {(is_, id) for is_ in ("online", "offline") for id in ("rj", 7)}

    with Ndjson(server, "alice?presence=1") as stream:
        notices(lambda: json.loads(stream.line()))
    with Sse(server, "alice?presence=1&format=json") as stream:
        notices(lambda: json.loads(stream.event()[1]))
    url = server.public_url.replace("http", "ws") + "/ws/bob?presence=1"
    with websockets.sync.client.connect(url, proxy=None) as socket:
        notices(lambda: json.loads(socket.recv(PATIENCE)))
    with Ndjson(server, "rj"), Connection(server) as connection:
        until(lambda: server.api.post("/v1/online", json=["rj"]).json()["online"], "online")
        connection.get("/poll/alice?presence=1&wait=0")
        batch = json.loads(connection.response().body)
        check(document, "batch", batch)
        assert batch == [{"type": "presence", "data": {"online": ["rj"], "first": True, "more": False}}]


def test_publishing_over_a_websocket_is_as_described(document, start, secret_file):
    server = start("--client-publish", "--jwt-secret-file", secret_file)
    writer = token(sub="rj", encke={"publish": ["rj"]})

    async def talk():
        url = server.public_url.replace("http", "ws") + "/ws"
        headers = {"Authorization": f"Bearer {writer}"}
        async with websockets.connect(url, proxy=None, additional_headers=headers) as socket:
            await socket.recv()
            for event, schema in [
                ({"subject": "rj", "data": {"a": 1}, "type": "note", "ref": "1"}, "published"),
                ({"subject": 7, "data": "AA==", "encoding": "base64", "ref": "2"}, "error"),
            ]:
                message = {"publish": event}
                check(document, "publish", message)
                await socket.send(json.dumps(message))
                answer = json.loads(await socket.recv())
                if "subject" in answer:
                    answer = json.loads(await socket.recv())
                check(document, schema, answer)
                assert answer["data"]["ref"] == event["ref"]

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


def test_a_server_without_its_page_has_no_description(start):
    with Connection(start("--page=false")) as connection:
        connection.get("/asyncapi.json")
        assert connection.response().status == 404
