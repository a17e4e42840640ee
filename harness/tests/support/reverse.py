"""Reverse proxies in front of a server, as operators set them up."""

import contextlib
import shutil
import socket
import subprocess
import tempfile

from .program import Program
from .wait import until

# What a location says beside `proxy_pass`. Alone, it sends the address of the server as `Host`.
NGINX = {
    "nginx": "",
    "nginx, HTTP/1.1": 'proxy_http_version 1.1; proxy_set_header Connection "";',
    "nginx, Host": "proxy_set_header Host $http_host;",
    "nginx, X-Forwarded-For": "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
    "nginx, X-Forwarded-Proto": "proxy_set_header X-Forwarded-Proto $scheme;",
    "nginx, Forwarded": "proxy_set_header Forwarded for=$remote_addr;",
    "nginx, Via": 'proxy_set_header Via "1.1 edge";',
}
HAPROXY = {
    "haproxy": "mode http",
    "haproxy, X-Forwarded-For": "mode http\n  option forwardfor",
    "haproxy, Via": "mode http\n  http-request set-header Via 1.1\\ edge",
    "haproxy, TCP": "mode tcp",
}
# What a location says that lets WebSocket through.
WEBSOCKET = {
    "nginx, WebSocket": "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; "
    'proxy_set_header Connection "upgrade"; proxy_set_header Host $http_host;',
}
# Those that say in each request that they passed it on.
TELLING = [name for name in (*NGINX, *HAPROXY) if "Forwarded" in name or "Via" in name]
ALL = [*NGINX, *HAPROXY, "encke-proxy tcp"]

# Proxies that pass on bytes, and name the client in a PROXY header.
PASSING_ON = {
    "nginx, stream": None,
    "haproxy, v1": "send-proxy",
    "haproxy, v2": "send-proxy-v2",
    "encke-proxy tcp, v1": "v1",
    "encke-proxy tcp, v2": "v2",
}
# Debian has it as libnginx-mod-stream.
STREAM_MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"


@contextlib.contextmanager
def reverse_proxy(name, listen, to):
    """Runs a proxy at the port `listen` that leads to an address."""
    with tempfile.TemporaryDirectory(prefix="encke-reverse-") as directory:
        if name.startswith("encke-proxy tcp"):
            flags = ["--listen", f"127.0.0.1:{listen}", "--to", "%s:%d" % to, "--drain-timeout", "1s"]
            flags += ["--proxy-out", PASSING_ON[name]] if name in PASSING_ON else []
            program = Program("tcp", *flags, cwd=directory)
            try:
                yield program.listen
            finally:
                program.stop()
            return
        path = f"{directory}/conf"
        with open(path, "w") as file:
            write = _nginx if name.startswith("nginx") else _haproxy
            file.write(write(name, listen, to, directory))
        command = (
            [shutil.which("nginx") or "/usr/sbin/nginx", "-c", path, "-p", directory]
            if name.startswith("nginx")
            else [shutil.which("haproxy") or "/usr/sbin/haproxy", "-db", "-q", "-f", path]
        )
        with running(command, name, listen):
            yield ("127.0.0.1", listen)


@contextlib.contextmanager
def running(command, name, port, output=None):
    """Runs a proxy that listens at a port of this machine, to the end of the block."""
    process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        until(lambda: _listens(process, port), f"{name} listens")
        yield process
    finally:
        process.terminate()
        process.wait()


def _listens(process, port):
    assert process.poll() is None, f"it ended with {process.returncode}"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _nginx(name, listen, to, directory):
    if name in PASSING_ON:
        return f"""load_module {STREAM_MODULE}; daemon off; master_process off; pid {directory}/pid;
            error_log {directory}/error.log; events {{}} stream {{ server {{ listen 127.0.0.1:{listen};
            proxy_protocol on; proxy_pass %s:%d; }} }}""" % to
    return f"""daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;
        events {{}} http {{ access_log off; {temporary_paths(directory)} server {{ listen 127.0.0.1:{listen};
        location / {{ proxy_pass http://%s:%d; proxy_buffering off; {(NGINX | WEBSOCKET)[name]} }} }} }}""" % to


def temporary_paths(directory):
    """What lets nginx run without the directories of Debian."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return "".join(f"{kind}_temp_path {directory}/{kind};" for kind in kinds)


def _haproxy(name, listen, to, _):
    mode, send = HAPROXY.get(name, "mode tcp"), PASSING_ON.get(name, "")
    return f"""listen edge
  bind 127.0.0.1:{listen}
  {mode}
  timeout connect 10s
  timeout client 60s
  timeout server 60s
  server one %s:%d {send}
""" % to
