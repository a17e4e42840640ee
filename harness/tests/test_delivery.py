"""Who gets what: subscriptions, sessions, receipts, order."""

import json
import threading

import httpx
import pytest

from support.http import PLAIN, Ndjson, Sse
from support.wait import PATIENCE, until


def figures(receipt):
    return tuple(receipt[key] for key in ("subscribers", "online", "written", "queued", "shed"))


def test_nobody_is_there(server, name):
    assert figures(server.publish(name(), "x")) == (1, 0, 0, 0, 0)
    assert figures(server.send(name(), "x")) == (1, 0, 0, 0, 0)


def test_every_id_is_subscribed_to_itself(server, name):
    rj = name()
    with Sse(server, rj) as stream:
        assert figures(server.publish(rj, "x")) == (1, 1, 1, 0, 0)
        assert stream.data() == "x"


def test_receipt_counts_ids_and_sessions_apart(server, name):
    star, fans = name("star"), [name("fan") for _ in range(5)]
    for fan in fans:
        server.subscribe(fan, star)
    assert figures(server.publish(star, "0")) == (6, 0, 0, 0, 0)
    with Sse(server, fans[0]) as a, Ndjson(server, fans[0]) as b, Sse(server, fans[1]) as c:
        assert figures(server.publish(star, "1")) == (6, 2, 3, 0, 0)
        with Sse(server, star) as d:
            assert figures(server.publish(star, "2")) == (6, 3, 4, 0, 0)
            assert d.data() == "2"
        until(lambda: not server.sessions(star), "the star has left")
        for stream in (a, b, c):
            assert [stream.data(), stream.data()] == ["1", "2"]
        # A fan's own events are not the star's.
        assert figures(server.publish(fans[0], "3")) == (1, 1, 2, 0, 0)
        assert a.data() == b.data() == "3"
        assert figures(server.publish(star, "4"))[2:] == (3, 0, 0)
        assert c.data() == "4"


def test_subscription_takes_effect_on_the_next_event(server, name):
    fan, star = name("fan"), name("star")
    with Sse(server, fan) as stream:
        server.publish(star, "before")
        for turn in range(20):
            assert server.subscribe(fan, star) == {"added": 1, "unchanged": 0}
            assert figures(server.publish(star, f"in {turn}")) == (2, 1, 1, 0, 0)
            assert server.unsubscribe(fan, star) == {"removed": 1, "unchanged": 0}
            assert figures(server.publish(star, f"out {turn}")) == (1, 0, 0, 0, 0)
        server.publish(fan, "end")
        got = [stream.data() for _ in range(21)]
    assert got == [f"in {turn}" for turn in range(20)] + ["end"]


def test_subscribing_twice_is_once(server, name):
    fan, star = name("fan"), name("star")
    server.subscribe(fan, star)
    assert server.subscribe(fan, star) == {"added": 0, "unchanged": 1}
    with Sse(server, fan) as stream:
        assert figures(server.publish(star, "once")) == (2, 1, 1, 0, 0)
        server.publish(fan, "end")
        assert [stream.data(), stream.data()] == ["once", "end"]
    server.unsubscribe(fan, star)
    assert server.unsubscribe(fan, star) == {"removed": 0, "unchanged": 1}
    assert figures(server.publish(star, "x")) == (1, 0, 0, 0, 0)


def test_subscribing_to_oneself_changes_nothing(server, name):
    rj = name()
    server.subscribe(rj, rj)
    with Sse(server, rj) as stream:
        assert figures(server.publish(rj, "x")) == (1, 1, 1, 0, 0)
        server.unsubscribe(rj, rj)
        assert figures(server.publish(rj, "y")) == (1, 1, 1, 0, 0)
        assert [stream.data(), stream.data()] == ["x", "y"]


def test_session_with_many_ids_gets_one_copy(server, name):
    star = name("star")
    ids = [name("me") for _ in range(100)]
    for each in ids:
        server.subscribe(each, star)
    with Sse(server, ",".join(ids)) as stream, Sse(server, ids[7]) as other:
        receipt = server.publish(star, "once")
        assert figures(receipt) == (101, 100, 2, 0, 0)
        server.publish(ids[99], "end")
        assert [stream.data(), stream.data()] == ["once", "end"]
        assert other.data() == "once"


def test_the_most_ids_a_session_may_have(server, name):
    ids = [name("me") for _ in range(128)]
    with Sse(server, ",".join(ids)) as stream:
        for each in ids:
            assert figures(server.publish(each, each)) == (1, 1, 1, 0, 0)
        assert [stream.data() for _ in ids] == ids


def test_one_id_with_many_sessions(server, name):
    rj = name()
    streams = [Sse(server, rj) for _ in range(50)]
    assert figures(server.publish(rj, "to all")) == (1, 1, 50, 0, 0)
    assert [stream.data() for stream in streams] == ["to all"] * 50
    for stream in streams[:20]:
        stream.close()
    until(lambda: len(server.sessions(rj)) == 30, "30 sessions")
    assert figures(server.publish(rj, "to the rest")) == (1, 1, 30, 0, 0)
    for stream in streams[20:]:
        assert stream.data() == "to the rest"
        stream.close()
    until(lambda: not server.sessions(rj), "no session")
    assert figures(server.publish(rj, "to nobody")) == (1, 0, 0, 0, 0)


def test_send_does_not_ask_subscribers(server, name):
    star, fan = name("star"), name("fan")
    server.subscribe(fan, star)
    with Sse(server, star) as a, Sse(server, star) as b, Sse(server, fan) as c:
        assert figures(server.send(star, "sent")) == (1, 1, 2, 0, 0)
        assert figures(server.publish(star, "published")) == (2, 2, 3, 0, 0)
        assert [a.data(), a.data()] == [b.data(), b.data()] == ["sent", "published"]
        assert c.data() == "published"


def test_integers_and_their_spelling_are_one_id(server, name):
    number = 7_000_000 + int(name("").lstrip("-"))
    with Sse(server, number) as stream, Ndjson(server, f"0{number}") as other:
        line = json.dumps({"subject": number, "data": "a"}) + "\n"
        line += json.dumps({"subject": str(number), "data": "b"}) + "\n"
        answer = server.api.post(
            "/v1/publish", content=line, headers={"Content-Type": "application/x-ndjson"}
        )
        receipts = [json.loads(line) for line in answer.text.splitlines()]
        assert [figures(receipt) for receipt in receipts] == [(1, 1, 1, 0, 0)] * 2
        assert [stream.data(), stream.data()] == ["a", "b"]
        # A leading zero makes another id.
        assert figures(server.publish(f"0{number}", "c")) == (1, 1, 1, 0, 0)
        assert other.event()["subject"] == f"0{number}"


def test_large_integers(server):
    for number in (2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**64):
        with Ndjson(server, number) as stream:
            assert figures(server.publish(number, "x")) == (1, 1, 1, 0, 0)
            subject = stream.event()["subject"]
            # Beyond 2^53 readers of JSON would round it: it is a string.
            assert subject == (number if number < 2**53 else str(number))


def test_one_session_sees_all_transports_alike(server, name):
    rj = name()
    with Sse(server, rj) as a, Ndjson(server, rj) as b:
        receipts = [server.publish(rj, f"event {n}", kind="k") for n in range(10)]
        for n, receipt in enumerate(receipts):
            assert a.event() == ("k", f"event {n}", receipt["id"])
            assert b.event() == {
                "id": receipt["id"], "subject": rj, "type": "k", "data": f"event {n}",
            }  # fmt: skip


def test_order_per_subject_under_concurrent_publishers(start):
    """All sessions on all workers see the events of a subject in one order, that of their ids."""
    server = start(workers=4)
    subjects = ["north", "south"]
    publishers, events = 6, 60
    for fan in range(12):
        for subject in subjects:
            server.subscribe(f"fan-{fan}", subject)
    streams = [Ndjson(server, f"fan-{fan}") for fan in range(12)]
    workers = {session["worker"] for fan in range(12) for session in server.sessions(f"fan-{fan}")}
    assert len(workers) > 1
    failures = []

    def publish(publisher):
        with httpx.Client(base_url=server.control_url, timeout=PATIENCE, **PLAIN) as api:
            for number in range(events):
                subject = subjects[number % 2]
                # Some wait for their receipts, some do not.
                params = {"receipt": "early"} if publisher % 2 else {}
                answer = api.post(
                    f"/v1/publish/{subject}",
                    content=json.dumps([publisher, number]),
                    headers={"Content-Type": "application/json"},
                    params=params,
                )
                if answer.status_code not in (200, 202):
                    failures.append(answer.text)

    threads = [threading.Thread(target=publish, args=[number]) for number in range(publishers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    orders = []
    for stream in streams:
        got = [stream.event() for _ in range(publishers * events)]
        order = {subject: [] for subject in subjects}
        for event in got:
            order[event["subject"]].append((int(event["id"].rsplit("-")[-1]), event["data"]))
        for subject in subjects:
            sequence = [number for number, _ in order[subject]]
            assert sequence == sorted(set(sequence)), "ids of a subject grow"
            for publisher in range(publishers):
                own = [data[1] for _, data in order[subject] if data[0] == publisher]
                assert own == sorted(own), "a publisher's events keep their order"
        orders.append(order)
        stream.close()
    assert all(order == orders[0] for order in orders)


def test_workers_all_take_part(start):
    server = start(workers=4)
    streams = [Sse(server, f"fan-{n}") for n in range(64)]
    for n in range(64):
        server.subscribe(f"fan-{n}", "star")
    busy = [worker["connections"] for worker in server.stats()["workers"]]
    assert sum(busy) == 64 and all(busy), busy
    assert figures(server.publish("star", "x")) == (65, 64, 64, 0, 0)
    for stream in streams:
        assert stream.data() == "x"
        stream.close()


def test_closed_session_is_logged_out_at_once(server, name):
    rj = name()
    with Sse(server, rj):
        assert figures(server.publish(rj, "x"))[1] == 1
    until(lambda: figures(server.publish(rj, "x")) == (1, 0, 0, 0, 0), "logged out")


def test_kicked_session_gets_its_events_and_an_end(server, name):
    rj, other = name(), name()
    with (
        Sse(server, f"{rj},{other}") as stream,
        Sse(server, rj) as second,
        Sse(server, other) as third,
    ):
        server.publish(rj, "last")
        answer = server.api.delete(f"/v1/sessions/{rj}")
        assert answer.json() == {"closed": 2}
        assert stream.data() == second.data() == "last"
        assert stream.event() is None and second.event() is None
        until(lambda: not server.sessions(rj), "no session of it")
        # The session had two ids and is gone from both.
        until(lambda: len(server.sessions(other)) == 1, "one session of the other")
        assert figures(server.publish(other, "x")) == (1, 1, 1, 0, 0)
        assert third.data() == "x"


def test_sessions_are_described(server, name):
    rj, other = name(), name()
    with Sse(server, f"{rj},{other}") as stream, Ndjson(server, rj) as second:
        server.publish(rj, "x" * 1000)
        assert stream.data() == second.data()

        def acknowledged():
            sessions = server.sessions(rj)
            return sessions if all(s["bytes_unacknowledged"] == 0 for s in sessions) else None

        sessions = {s["transport"]: s for s in until(acknowledged, "acknowledged")}
        assert set(sessions) == {"sse", "ndjson"}
        sse = sessions["sse"]
        assert sorted(sse["ids"]) == sorted([rj, other])
        assert sse["peer"] == "%s:%d" % stream.connection.socket.getsockname()
        assert sse["worker"] in (0, 1)
        assert 0 <= sse["age_seconds"] < 60
        assert (sse["backlog_frames"], sse["backlog_bytes"]) == (0, 0)
        assert sse["bytes_acknowledged"] > 1000
        assert [s["transport"] for s in server.sessions(other)] == ["sse"]
    assert server.sessions(name()) == []


def test_early_receipt(server, name):
    rj = name()
    with Sse(server, rj) as stream:
        answer = server.api.post(f"/v1/publish/{rj}", content="x", params={"receipt": "early"})
        assert answer.status_code == 202
        receipt = answer.json()
        assert (receipt["subscribers"], receipt["online"]) == (1, 1)
        # What is not known yet is not claimed.
        assert "written" not in receipt and "queued" not in receipt
        assert stream.event() == ("message", "x", receipt["id"])


def test_what_a_session_is_owed_in_one_turn_leaves_together(server, name):
    rj, count = name(), 5000
    with Sse(server, rj) as stream:
        before = server.totals()
        lines = "".join(json.dumps({"subject": rj, "data": f"{n}"}) + "\n" for n in range(count))
        answer = server.api.post(
            "/v1/publish?receipts=summary",
            content=lines,
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert [stream.data() for _ in range(count)] == [f"{n}" for n in range(count)]
        summary = answer.json()
        assert (summary["written"] + summary["queued"], summary["shed"]) == (count, 0)
        calls = server.totals()["system_calls"]["send"] - before["system_calls"]["send"]
        assert calls < count / 2, f"{calls} calls for {count} events"


def test_order_when_an_audience_grows_and_shrinks(start):
    """Events with a large audience wait in another line than those with a small one; one subject's
    must not overtake each other all the same."""
    server = start(workers=2)
    audience, rounds = 2500, 4
    everybody = "".join(f"fan-{n} star\n" for n in range(audience))
    most = "".join(f"fan-{n} star\n" for n in range(10, audience))
    text = {"Content-Type": "text/plain"}
    streams = [Sse(server, f"fan-{n}") for n in range(audience)]
    expected, numbers = [], iter(range(10_000))

    def publish(count):
        for _ in range(count):
            number = next(numbers)
            # Nobody waits: the next event is there while this one is still on its way.
            answer = server.api.post(
                "/v1/publish/star", content=f"{number}", params={"receipt": "early"}
            )
            assert answer.status_code == 202
            expected.append(f"{number}")

    for _ in range(rounds):
        assert server.post("/v1/subscriptions", everybody, headers=text)["failed"] == 0
        publish(5)
        assert server.post("/v1/subscriptions/remove", most, headers=text)["failed"] == 0
        publish(5)
    receipt = server.publish("star", "end")
    assert figures(receipt) == (11, 10, 10, 0, 0)
    for stream in streams[:10]:
        assert [stream.data() for _ in expected] == expected
        assert stream.data() == "end"
    for stream in streams[10:]:
        got = [stream.data() for _ in range(5 * rounds)]
        assert got == [data for at, data in enumerate(expected) if at % 10 < 5]
    for stream in streams:
        stream.close()
    until(lambda: server.totals()["connections"] == 0, "closed")


@pytest.mark.parametrize("size", [0, 1, 65535, 65536])
def test_sizes(server, name, size):
    rj = name()
    payload = "é" * (size // 2) + "x" * (size % 2)
    with Sse(server, rj) as a, Ndjson(server, rj) as b:
        receipt = server.publish(rj, payload)
        assert receipt["written"] + receipt["queued"] == 2 and receipt["shed"] == 0
        assert a.data() == b.data() == payload
