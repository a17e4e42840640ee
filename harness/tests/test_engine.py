"""What a cluster relies on in its engine, asked of real servers of NATS without Encke: the newest release, and the oldest one."""

import asyncio
import contextlib
import time

import nats
import pytest
from nats.errors import Error, NoRespondersError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import APIError

from support.nats import NEWEST, OLDEST, Nats

# Seconds until a write that has no majority is given up, and until an election is over on a busy machine.
NO_ANSWER, ELECTION = 1.5, 60.0


BINARIES = {"newest": NEWEST, "oldest": OLDEST}


@pytest.fixture(scope="module", params=BINARIES)
def engine(request):
    with Nats(3, BINARIES[request.param]) as engine:
        yield engine


@pytest.fixture
def healthy(engine):
    for server in engine.servers:
        if not server.is_running:
            server.start()
    engine.until_healthy()
    return engine


def settings(name):
    """A stream as Encke makes it."""
    return StreamConfig(
        name=name,
        subjects=[f"{name}.log"],
        num_replicas=3,
        max_bytes=64 << 20,
        duplicate_window=1.0,
        deny_delete=True,
        deny_purge=True,
        allow_direct=True,
    )


@contextlib.asynccontextmanager
async def connected(*servers):
    """A client that stays with these servers."""

    async def ignore(_):
        pass

    client = await nats.connect(
        [server.url for server in servers],
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
        connect_timeout=2,
        error_cb=ignore,
    )
    try:
        yield client
    finally:
        with contextlib.suppress(Error, OSError):
            await client.close()


async def make(client, name):
    """Makes a stream, once the engine can; returns when it has a leader."""
    js = client.jetstream(timeout=5)
    deadline = time.monotonic() + ELECTION
    while True:
        try:
            await js.add_stream(settings(name))
            return js
        except (APIError, NatsTimeout, NoRespondersError):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)


async def append(js, name, text, patience=ELECTION):
    """Appends until it is acknowledged, and returns sequence and seconds."""
    start = time.monotonic()
    while True:
        try:
            ack = await js.publish(f"{name}.log", text.encode(), timeout=NO_ANSWER, stream=name)
            return ack.seq, time.monotonic() - start
        except (Error, NatsTimeout, APIError, OSError):
            assert time.monotonic() - start < patience, f"no acknowledgement for {patience} s"
            await asyncio.sleep(0.1)


async def read_all(js, name, first=1):
    """What a reader gets from a sequence on, to the end of the stream: (sequence, text)."""
    config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first)
    deadline = time.monotonic() + ELECTION
    while True:
        try:
            last = (await js.stream_info(name)).state.last_seq
            reader = await js.subscribe(f"{name}.log", ordered_consumer=True, config=config, stream=name)
            break
        except (Error, NatsTimeout, APIError):
            # The servers as a whole may still have no leader.
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
    entries = []
    while not entries or entries[-1][0] < last:
        message = await reader.next_msg(timeout=10)
        entries.append((message.metadata.sequence.stream, message.data.decode()))
    await reader.unsubscribe()
    return entries


async def leader_of(engine, js, name):
    deadline = time.monotonic() + ELECTION
    while time.monotonic() < deadline:
        with contextlib.suppress(Error, NatsTimeout, APIError):
            if leader := (await js.stream_info(name)).cluster.leader:
                return engine.by_name(leader)
        await asyncio.sleep(0.1)
    raise AssertionError("no leader")


def test_a_write_is_acknowledged_by_a_majority_and_by_no_fewer(healthy):
    async def trial():
        async with connected(*healthy.servers) as client:
            js = await make(client, "majority")
            leader = await leader_of(healthy, js, "majority")
            others = [server for server in healthy.servers if server is not leader]
            await append(js, "majority", "three")
            others[0].kill()
            await append(js, "majority", "two")
            # Paused, so that the leader cannot know at once that it is alone.
            others[1].pause()
            async with connected(leader) as alone:
                with pytest.raises((Error, NatsTimeout, APIError)):
                    await alone.jetstream().publish("majority.log", b"one", timeout=NO_ANSWER)
            others[1].resume()
            others[0].start()
            await append(js, "majority", "three again")
            texts = [text for _, text in await read_all(js, "majority")]
            assert [text for text in texts if text != "one"] == ["three", "two", "three again"]
            # What was not acknowledged may have been stored. A writer cannot know without reading.
            assert texts.count("one") <= 1

    asyncio.run(trial())


def test_writes_and_reads_go_on_after_the_leader_is_killed_and_nothing_acknowledged_is_lost(healthy):
    async def trial():
        async with connected(*healthy.servers) as client:
            js = await make(client, "election")
            acknowledged = {}
            for number in range(200):
                acknowledged[(await append(js, "election", f"a{number}"))[0]] = f"a{number}"
            leader = await leader_of(healthy, js, "election")
            consumer = await consumer_at(leader, client, js, "election")
            leader.kill()
            sequence, seconds = await append(js, "election", "after")
            acknowledged[sequence] = "after"
            print(f"election: {seconds:.1f} s")
            # A consumer in memory lives on one server: who reads must notice that it is gone, and go on behind the last
            # entry with another one.
            with pytest.raises((Error, NatsTimeout, APIError)):
                await js._api_request(f"$JS.API.CONSUMER.INFO.election.{consumer}", timeout=NO_ANSWER)
            rest = await read_all(js, "election", first=101)
            assert [sequence for sequence, _ in rest] == list(range(101, rest[-1][0] + 1))
            entries = dict(await read_all(js, "election"))
            assert acknowledged.items() <= entries.items()
            # Sequences have no hole: a reader that finds one has missed something.
            assert sorted(entries) == list(range(1, len(entries) + 1))

    asyncio.run(trial())


async def consumer_at(server, client, js, name):
    """Makes a consumer of the kind that ordered readers have, on a certain server."""
    for _ in range(50):
        config = ConsumerConfig(num_replicas=1, mem_storage=True, deliver_subject=client.new_inbox())
        consumer = await js.add_consumer(name, config)
        if consumer.cluster.leader == server.name:
            return consumer.name
    raise AssertionError(f"no consumer came to {server.name}")


def test_an_append_that_is_repeated_after_a_lost_answer_is_stored_twice(healthy):
    """Therefore Encke numbers its entries, and counts none of them twice."""

    async def trial():
        async with connected(healthy.servers[0]) as client:
            await make(client, "repeat")
            # Sent without waiting for the answer: it is lost with the connection.
            await client.publish("repeat.log", b"entry 1")
            await client.flush()
        async with connected(healthy.servers[1]) as client:
            js = client.jetstream()
            await append(js, "repeat", "entry 1")
            await append(js, "repeat", "entry 2")
            assert [text for _, text in await read_all(js, "repeat")] == ["entry 1", "entry 1", "entry 2"]

    asyncio.run(trial())


def test_all_readers_get_one_order_of_what_writers_append_at_all_servers(healthy):
    async def trial():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(server)) for server in healthy.servers]
            await make(clients[0], "order")
            streams = [client.jetstream() for client in clients]

            async def write(writer):
                for number in range(100):
                    await append(streams[writer], "order", f"{writer}-{number}")

            await asyncio.gather(*(write(writer) for writer in range(3)))
            first, *others = [await read_all(js, "order") for js in streams]
            assert len(first) == 300
            assert all(other == first for other in others)
            for writer in range(3):
                own = [text for _, text in first if text.startswith(f"{writer}-")]
                assert own == [f"{writer}-{number}" for number in range(100)]

    asyncio.run(trial())


def test_nothing_can_be_taken_out_of_the_log_and_that_cannot_be_changed(healthy):
    async def trial():
        async with connected(*healthy.servers) as client:
            js = await make(client, "deny")
            sequence, _ = await append(js, "deny", "entry")
            with pytest.raises(APIError):
                await js.purge_stream("deny")
            with pytest.raises(APIError):
                await js.delete_msg("deny", sequence)
            for change in ({"deny_purge": False}, {"deny_delete": False}):
                with pytest.raises(APIError):
                    await js.update_stream(settings("deny"), **change)
            assert (await js.stream_info("deny")).state.messages == 1

    asyncio.run(trial())


def test_a_full_log_lets_go_of_its_oldest_entries_and_says_where_it_begins(healthy):
    async def trial():
        async with connected(*healthy.servers) as client:
            js = await make(client, "full")
            small = settings("full")
            small.max_bytes = 64 << 10
            await js.update_stream(small)
            for number in range(100):
                await append(js, "full", f"{number}" + "x" * 2000)
            state = (await js.stream_info("full")).state
            assert state.last_seq == 100
            assert 60 < state.first_seq < 100
            # A reader that comes from before finds a hole, by the sequence of what it gets.
            assert (await read_all(js, "full", first=10))[0][0] == state.first_seq

    asyncio.run(trial())


def test_an_append_to_the_wrong_stream_is_refused(healthy):
    async def trial():
        async with connected(*healthy.servers) as client:
            js = await make(client, "expected")
            with pytest.raises(APIError):
                await js.publish("expected.log", b"entry", stream="another")

    asyncio.run(trial())


def test_every_server_says_that_it_syncs_each_write(healthy):
    for server in healthy.servers:
        assert server.monitor("varz")["jetstream"]["config"]["sync_always"] is True
