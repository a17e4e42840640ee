"""What a client sees of an event in each format, as published libraries read it."""

import json

import httpx
import httpx_sse
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from support.http import PLAIN, Connection, Ndjson
from support.node import EventSource
from support.wait import PATIENCE

BINARY = "application/octet-stream"
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

# What is published: data, type, content type; and what a client of CloudEvents gets.
PUBLISHED = [
    ("hello", None, TEXT, "hello"),
    ("two\r\nlines\n", "note", TEXT, "two\r\nlines\n"),
    ("", None, TEXT, ""),
    ("\x00 \u2028 é漢😀 \"\\", "é", TEXT, "\x00 \u2028 é漢😀 \"\\"),
    ('{\r\n "a": [1, "b"]\n}', "com.example.song", JSON, {"a": [1, "b"]}),
    ("null", None, JSON, None),
    ("false", None, JSON, False),
    ("7", None, JSON, 7),
    (b"\x00\xff\r\n", "raw", BINARY, b"\x00\xff\r\n"),
    (b"", None, BINARY, b""),
]


def publish_all(server, subject):
    return [
        server.publish(subject, data, kind=kind, content_type=content_type)["id"]
        for data, kind, content_type, _ in PUBLISHED
    ]


def check_cloud_events(texts, ids, subject):
    """The SDK checks every attribute; what it hands out is what was published."""
    seen = set()
    for text, id, (_, kind, content_type, expected) in zip(texts, ids, PUBLISHED, strict=True):
        event = JSONFormat().read(CloudEvent, text)
        assert event.get_specversion() == "1.0"
        assert event.get_id() == id
        assert event.get_source() == "/encke"
        assert event.get_type() == (kind or "encke.event")
        assert event.get_subject() == subject
        # The SDK adds what is missing, so that is looked for in the text.
        members = json.loads(text)
        assert {"specversion", "id", "source", "type"} <= members.keys() and "time" not in members
        assert event.get_datacontenttype() == content_type.partition(";")[0]
        data = event.get_data()
        assert data == expected and type(data) is type(expected), text
        seen.add((event.get_source(), event.get_id()))
    assert len(seen) == len(PUBLISHED), "source and id are unique"


@pytest.mark.parametrize("asked", ["?format=cloudevents", ""])
def test_the_sdk_of_cloud_events_reads_lines(server, name, asked):
    rj = name("rj")
    accept = [] if asked else ["Accept: application/cloudevents+json"]
    with Ndjson(server, rj + asked, *accept) as stream:
        ids = publish_all(server, rj)
        lines = []
        while len(lines) < len(ids):
            line = stream.line()
            # The others are positions without an event.
            if "specversion" in json.loads(line):
                lines.append(line)
    check_cloud_events(lines, ids, rj)


@pytest.mark.parametrize("number", [False, True])
def test_the_sdk_of_cloud_events_reads_messages(server, name, number):
    rj = name("rj")
    if number:
        rj = str(7_000_000 + int(rj.rsplit("-")[-1]))
    url = f"{server.public_url}/events/{rj}?format=cloudevents"
    with (
        httpx.Client(timeout=PATIENCE, **PLAIN) as client,
        httpx_sse.connect_sse(client, "GET", url) as source,
    ):
        events = source.iter_sse()
        assert 1500 <= next(events).retry < 4500
        ids = publish_all(server, rj)
        messages = [next(events) for _ in ids]
    assert [message.id for message in messages] == ids
    assert {message.event for message in messages} == {"message"}
    check_cloud_events([message.data for message in messages], ids, rj)


def test_one_handler_of_an_event_source_sees_every_type_and_subject(server, name):
    alice, news = name("alice"), name("news")
    server.subscribe(alice, news)
    with EventSource(f"{server.public_url}/events/{alice}?format=json") as source:
        source.until("open")
        for subject, kind in [(alice, None), (news, "note"), (alice, "reset"), (news, "a b")]:
            receipt = server.publish(subject, "x", kind=kind)
            said = source.until("data")
            assert said["type"] == "message" and said["id"] == receipt["id"]
            expected = {"id": receipt["id"], "subject": subject, "data": "x"}
            assert json.loads(said["data"]) == expected | ({"type": kind} if kind else {})


def test_json_on_events_and_on_stream_are_the_same_object(server, name):
    rj = name("rj")
    url = f"{server.public_url}/events/{rj}?format=json"
    with (
        Ndjson(server, rj) as stream,
        httpx.Client(timeout=PATIENCE, **PLAIN) as client,
        httpx_sse.connect_sse(client, "GET", url) as source,
    ):
        events = source.iter_sse()
        next(events)
        publish_all(server, rj)
        for _, _, content_type, _ in PUBLISHED:
            event = stream.event()
            assert json.loads(next(events).data) == event
            assert event.get("encoding") == ("base64" if content_type == BINARY else None)


def test_an_unknown_format_is_refused_with_those_of_the_path(server, name):
    refused = {
        f"/events/{name()}?format=xml": "use plain, json or cloudevents",
        f"/events?id={name()}&format=JSON": "use plain, json or cloudevents",
        f"/stream/{name()}?format=plain": "use json or cloudevents",
        f"/test/{name()}?format=json": "use plain",
    }
    with Connection(server) as connection:
        for target, sentence in refused.items():
            connection.get(target)
            response = connection.response()
            assert response.status == 400, target
            assert sentence in response.text
            assert "Location" not in response.fields


def test_the_head_of_a_format_is_that_of_its_transport(server, name):
    for path, content_type in [("events", "text/event-stream"), ("stream", "application/x-ndjson")]:
        for format in ["json", "cloudevents"]:
            with Connection(server) as connection:
                connection.get(f"/{path}/{name()}?format={format}", method="HEAD")
                status, _, fields = connection.head()
                assert (status, fields["Content-Type"]) == (200, content_type)


def cloud_event(**attributes):
    attributes = {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "order.paid",
        **attributes,
    }
    data = attributes.pop("data", None)
    return CloudEvent(attributes, data)


def test_cloud_events_of_the_sdk_are_published(server, name):
    """Structured, in a batch, and binary; each arrives with its subject, type and data."""
    me = name()
    structured = json.loads(JSONFormat().write(cloud_event(subject=me, data={"order": 1})))
    second = json.loads(
        JSONFormat().write(cloud_event(subject=me, datacontenttype="text/plain", data="two"))
    )
    binary = {
        "ce-specversion": "1.0",
        "ce-id": "7",
        "ce-source": "/shop",
        "ce-type": "order.paid",
        "ce-subject": me,
        "Content-Type": "application/octet-stream",
    }
    post = server.api.post
    with Ndjson(server, me) as stream:
        one = {"Content-Type": "application/cloudevents+json"}
        for path in ["/v1/publish", f"/v1/publish/{me}", f"/v1/send/{me}"]:
            receipt = post(path, content=json.dumps(structured, indent=1), headers=one)
            assert (receipt.status_code, receipt.json()["written"]) == (200, 1), path
            assert stream.event()["data"] == {"order": 1}
        many = {"Content-Type": "application/cloudevents-batch+json"}
        answer = post("/v1/publish", content=json.dumps([structured, second]), headers=many)
        assert answer.status_code == 200
        assert [stream.event()["data"] for _ in range(2)] == [{"order": 1}, "two"]
        assert post("/v1/publish", content=b"\0\xff", headers=binary).status_code == 200
        event = stream.event()
        assert (event["type"], event["data"], event["encoding"]) == ("order.paid", "AP8=", "base64")


def test_what_is_no_cloud_event_is_refused_with_a_sentence(server):
    one = {"Content-Type": "application/cloudevents+json"}
    answer = server.api.post("/v1/publish", content='{"subject":"a","data":1}', headers=one)
    assert answer.status_code == 400 and "specversion" in answer.json()["detail"]
    whole = '{"specversion":"1.0","id":"7","source":"/a","type":"t","data":1}'
    answer = server.api.post("/v1/publish", content=whole, headers=one)
    assert answer.status_code == 400 and "no subject" in answer.json()["detail"]
