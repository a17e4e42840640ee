"""Records what servers of today send, for the decoders' tests: `record.py ENCKE`.

Needs nginx, curl, and the package `websockets` of PyPI. Writes the bytes of each connection, head and
all, to `*.bin` beside itself: of nginx a file of events with its length and one in chunks, of Encke each
transport, of nginx before Encke, and of a WebSocket server that pings, splits a message and closes. What
curl makes of the same streams of Encke is in `*.curl`.
"""

import asyncio
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import websockets.asyncio.server

HERE = pathlib.Path(__file__).parent
DUE = 1_763_769_600_000_000_000
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def stamp(number):
    return json.dumps({"t": DUE + number, "n": number, "text": "häl\nlo"})


def connect(port, path, *fields):
    connection = socket.create_connection(("127.0.0.1", port))
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", *fields, "", ""]
    connection.sendall("\r\n".join(lines).encode())
    connection.settimeout(1)
    return connection


def drain(connection):
    """All that comes, up to the end or a second of silence."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except TimeoutError:
        pass
    return data


def curl(port, path):
    command = ["curl", "--silent", "--no-buffer", "--max-time", "2", f"http://127.0.0.1:{port}{path}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def keep(name, data):
    (HERE / name).write_bytes(data)
    print(name, len(data))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(500):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise SystemExit(f"nobody listens on {port}")


def publish(control):
    for number in range(1, 4):
        command = [sys.argv[1], "publish", "7", stamp(number), "--json-data"]
        subprocess.run([*command, "--control", f"http://127.0.0.1:{control}"], check=True)


def record_http(directory):
    public, control, port = free_port(), free_port(), free_port()
    lines = "".join(f'{{"id":"a-{number}","data":{stamp(number)}}}\n' for number in range(1, 4))
    (directory / "events.ndjson").write_text(lines)
    (directory / "nginx.conf").write_text(
        f"""
        daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;
        events {{}}
        http {{
          access_log off; client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
          fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
          server {{
            listen 127.0.0.1:{port}; root {directory};
            location /chunked/ {{ alias {directory}/; sub_filter_types *; sub_filter no such; }}
            location /events/ {{
              proxy_pass http://127.0.0.1:{public}; proxy_http_version 1.1; proxy_buffering off;
              proxy_set_header Connection "";
            }}
          }}
        }}"""
    )
    serve = ["serve", "--memory", "--listen", f"127.0.0.1:{public}", "--control", f"127.0.0.1:{control}"]
    processes = [
        subprocess.Popen([sys.argv[1], *serve, "--drain-timeout", "0"]),
        subprocess.Popen(["nginx", "-c", directory / "nginx.conf", "-p", directory]),
    ]
    try:
        wait_for(control), wait_for(port)
        keep("nginx-length.bin", drain(connect(port, "/events.ndjson", "Connection: close")))
        keep("nginx-chunked.bin", drain(connect(port, "/chunked/events.ndjson", "Connection: close")))
        streams = {
            "encke-sse": connect(public, "/events/7"),
            "encke-ndjson": connect(public, "/stream/7"),
            "encke-chunked": connect(public, "/test/7"),
            "nginx-before-encke": connect(port, "/events/7"),
        }
        curls = {
            "encke-sse": curl(public, "/events/7"),
            "encke-ndjson": curl(public, "/stream/7"),
            "encke-chunked": curl(public, "/test/7"),
            "nginx-before-encke": curl(port, "/events/7"),
        }
        time.sleep(0.5)
        publish(control)
        for name, connection in streams.items():
            keep(f"{name}.bin", drain(connection))
        for name, process in curls.items():
            keep(f"{name}.curl", process.communicate()[0])
    finally:
        for process in processes:
            process.terminate()
            process.wait()


async def record_websocket():
    async def serve(connection):
        await connection.send(stamp(1))
        await connection.ping(b"there?")
        await connection.send([stamp(2)[:20], stamp(2)[20:]])
        await connection.send(stamp(3).encode())
        await connection.send("x" * 300)
        await connection.send("{}")
        await connection.close(1001, "bye")

    port = free_port()
    async with websockets.asyncio.server.serve(serve, "127.0.0.1", port, compression=None):
        fields = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        connection = connect(port, "/", *fields, f"Sec-WebSocket-Key: {KEY}")
        keep("websockets.bin", await asyncio.to_thread(drain, connection))
        connection.close()


with tempfile.TemporaryDirectory() as directory:
    record_http(pathlib.Path(directory))
asyncio.run(record_websocket())
