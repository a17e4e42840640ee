"""The examples of docs/WIRE.md, run as they stand there."""

import re
import shlex

import pytest

from support.http import Connection
from support.program import ENVIRONMENT, ROOT, encke
from support.wait import until

TEXT = (ROOT / "docs" / "WIRE.md").read_text()
BLOCKS = re.findall(r"^```http ?(\w*)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
# The name of the run of a server in the examples; and the date, which no two answers share.
EPOCH = "k3v9p2m7wd"
DATE = re.compile(r"Date: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
# The reconnect delay, of which each client has its own.
RETRY = re.compile(r"(?<=^retry: )\d{4}$", re.MULTILINE)


class Client:
    """A connection of which everything that was received is kept, in the form of the examples."""

    def __init__(self, server, manner):
        self.connection = Connection(server)
        self.epoch = server.stats()["epoch"]
        self.manner = manner
        self.shown = 0

    def received(self):
        """Heads and bodies so far, without chunks."""
        head, blank, body = self.connection.buffer.partition(b"\r\n\r\n")
        if b"Transfer-Encoding: chunked" in head and self.manner != "chunks":
            body = b"".join(chunks(body))
        if self.manner == "websocket":
            body = b"".join(text + b"\n" for text in texts_of(body))
        whole = body if self.manner == "body" else head + blank + body
        text = whole.decode().replace("\r\n", "\n").replace(self.epoch, EPOCH)
        return without_times(text)

    def expect(self, text):
        """Waits for text that follows what was expected before."""
        expected = without_times(text)
        while len(found := self.received()[self.shown :]) < len(expected) and expected.startswith(found):
            self.connection.more()
        assert found.startswith(expected), f"expected:\n{expected}\nfound:\n{found}"
        self.shown += len(expected)


def without_times(text):
    return RETRY.sub("", DATE.sub("Date:", text))


def chunks(body):
    while b"\r\n" in body:
        size, _, rest = body.partition(b"\r\n")
        size = int(size, 16)
        if len(rest) < size + 2:
            return
        yield rest[:size]
        body = rest[size + 2 :]


def texts_of(frames):
    """The payloads of whole text frames; control frames are passed over."""
    while len(frames) >= 2:
        first, size, at = frames[0], frames[1], 2
        if size == 126:
            size, at = int.from_bytes(frames[2:4], "big"), 4
        if len(frames) < at + size:
            return
        if first == 0x81:
            yield frames[at : at + size]
        frames = frames[at + size :]


def text_frame(text):
    """A text as a client sends it; its mask changes nothing."""
    payload = text.encode()
    return bytes([0x81, 0x80 | len(payload)]) + bytes(4) + payload


def groups(lines):
    """Lines in a row that begin alike."""
    found = []
    for line in lines:
        mark, text = line[:1], line[2:]
        if found and mark in "<>" and found[-1][0] == mark:
            found[-1][1].append(text)
        else:
            found.append((mark, [text]))
    return found


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example(start, number):
    manner, block = BLOCKS[number]
    server = start("--history-bytes", "1MiB")
    client = Client(server, manner)
    with client.connection:
        run(server, client, block)


def run(server, client, block):
    lines = block.splitlines()
    assert any(line.startswith("<") for line in lines)
    for mark, texts in groups(lines):
        if mark == ">":
            if client.manner == "websocket" and client.shown:
                for text in texts:
                    client.connection.send(text_frame(text))
                continue
            sent = "".join(f"{text}\r\n" for text in texts).replace(EPOCH, client.epoch)
            client.connection.send(sent.encode())
            if "/poll/" in sent and "wait=0" not in sent:
                # It must wait before the event is published.
                until(lambda: server.stats()["online"], "the poll waits")
            if client.manner == "body":
                while b"\r\n\r\n" not in client.connection.buffer:
                    client.connection.more()
        elif mark == "<":
            client.expect("".join(f"{text}\n" for text in texts))
        elif mark == "&":
            client.expect(texts[0])
        else:
            program, *arguments = shlex.split(texts[0])
            assert (mark, program) == ("*", "encke")
            control = {"ENCKE_CONTROL": server.control_url}
            done = encke(*arguments, env={**ENVIRONMENT, **control})
            assert done.returncode == 0, done.stderr


def test_there_are_examples_of_every_transport():
    text = "".join(block for _, block in BLOCKS)
    for path in ["/events/", "/stream/", "/test/", "/ws/", "/poll/"]:
        assert f"> GET {path}" in text
