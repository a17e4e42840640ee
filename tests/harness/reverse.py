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
# Those that say in each request that they passed it on.
TELLING = [name for name in (*NGINX, *HAPROXY) if "Forwarded" in name or "Via" in name]
ALL = [*NGINX, *HAPROXY, "encke proxy"]


@contextlib.contextmanager
def reverse_proxy(name, listen, to):
    """Runs a proxy at the port `listen` that leads to an address."""
    with tempfile.TemporaryDirectory(prefix="encke-reverse-") as directory:
        if name == "encke proxy":
            flags = ["--listen", f"127.0.0.1:{listen}", "--to", "%s:%d" % to, "--drain-timeout", "1s"]
            program = Program("proxy", *flags, cwd=directory)
            try:
                yield program.listen
            finally:
                program.stop()
            return
        path = f"{directory}/conf"
        with open(path, "w") as file:
            file.write(_nginx(name, listen, to, directory) if name in NGINX else _haproxy(name, listen, to))
        command = (
            [shutil.which("nginx") or "/usr/sbin/nginx", "-c", path, "-p", directory]
            if name in NGINX
            else [shutil.which("haproxy") or "/usr/sbin/haproxy", "-db", "-q", "-f", path]
        )
        process = subprocess.Popen(command)
        try:
            until(lambda: _listens(process, listen), f"{name} listens")
            yield ("127.0.0.1", listen)
        finally:
            process.terminate()
            process.wait()


def _listens(process, port):
    assert process.poll() is None, f"it ended with {process.returncode}"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _nginx(name, listen, to, directory):
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in kinds)
    return f"""daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;
        events {{}} http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{listen};
        location / {{ proxy_pass http://%s:%d; proxy_buffering off; {NGINX[name]} }} }} }}""" % to


def _haproxy(name, listen, to):
    return f"""listen edge
  bind 127.0.0.1:{listen}
  {HAPROXY[name]}
  timeout connect 10s
  timeout client 60s
  timeout server 60s
  server one %s:%d
""" % to
