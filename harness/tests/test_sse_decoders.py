"""Three decoders that share no code find the same events in one stream of bytes, however it is cut: that of the crate
`wire`'s tests, eventsource-parser, and httpx-sse."""

import hashlib
import os
import random
import subprocess

import httpx
import httpx_sse
import pytest

from support.node import CLIENTS, NODE
from support.program import BINARY

STREAM = BINARY.parent / "examples" / "event_stream"
SEED = int(os.environ.get("ENCKE_SSE_SEED", "1"))
# A million by `ENCKE_SSE_EVENTS=1000000`, which takes some minutes.
EVENTS = int(os.environ.get("ENCKE_SSE_EVENTS", "20000"))
# Byte by byte takes fifty times as long.
EVENTS_BYTE_BY_BYTE = EVENTS // 50
# Bytes of the longest piece, and the events that are decoded in such pieces.
CUTS = [(1, EVENTS_BYTE_BY_BYTE), (40, EVENTS), (65536, EVENTS)]
# For a million events.
TIMEOUT = 1800


def in_node(path, size, *number):
    run = [NODE, CLIENTS / "sse_digests.mjs", path, str(size), str(SEED), *map(str, number)]
    return subprocess.run(run, capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout.splitlines()


class Pieces(httpx.SyncByteStream):
    """A file in pieces of 1 to `size` bytes."""

    def __init__(self, path, size):
        self.path, self.size = path, size

    def __iter__(self):
        random_ = random.Random(SEED)
        with open(self.path, "rb") as file:
            while piece := file.read(random_.randint(1, self.size)):
                yield piece


def in_python(path, size, number=None):
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(path, size))
    said = []
    events = (event for event in httpx_sse.EventSource(response).iter_sse() if event.retry is None)
    for at, event in enumerate(events):
        if number is None:
            digest = hashlib.sha1(f"{event.id}\0{event.event}\0{event.data}".encode())
            said.append(digest.hexdigest()[:16])
        elif at == number:
            said.append(repr([event.id, event.event, event.data]))
    return said


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """Makes streams of so many events; returns the path of one and the digests of what was published in it."""
    assert STREAM.exists(), f"{STREAM} is not built: cargo build -p wire --example event_stream"
    made = {}

    def stream(events):
        if events not in made:
            directory = tmp_path_factory.mktemp(f"events-{events}")
            path, expected = directory / "stream", directory / "expected"
            run = [STREAM, str(SEED), str(events), path, expected]
            done = subprocess.run(run, capture_output=True, text=True, timeout=TIMEOUT)
            assert done.returncode == 0, done.stderr
            made[events] = path, expected.read_text().splitlines()
        return made[events]

    return stream


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("decode", [in_node, in_python], ids=["eventsource-parser", "httpx-sse"])
@pytest.mark.parametrize(("size", "events"), CUTS, ids=[f"{size}-bytes" for size, _ in CUTS])
def test_decoders_find_what_was_published(streams, decode, size, events):
    path, expected = streams(events)
    assert len(expected) == events
    found = decode(path, size)
    differs = (at for at, (one, other) in enumerate(zip(found, expected, strict=False)) if one != other)
    at = next(differs, None)
    assert at is None, f"event {at} of seed {SEED} is decoded as {decode(path, size, at)}"
    assert len(found) == len(expected)


def test_the_stream_has_what_decoders_get_wrong(streams):
    """Otherwise the other tests prove nothing."""
    path, _ = streams(EVENTS)
    stream = path.read_bytes()
    for bytes_ in ["\0", "\ufeff", "\u2028", "\x85", "\U0010ffff", "data: data: forged", "data: \n\n", "data: \ndata: \n"]:
        assert bytes_.encode() in stream, bytes_
    # A client's parser splits there: none may come through.
    assert b"\r" not in stream
    assert max(map(len, stream.split(b"\n"))) > 1000
