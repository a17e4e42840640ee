"""The commands of "Try it" in docs/IDENTITY.md, run as they stand there."""

import os
import re
import subprocess

from support.program import BINARY, ENVIRONMENT, ROOT, encke
from support.wait import PATIENCE, until


def blocks(ports):
    """The blocks of commands, with free ports."""
    text = (ROOT / "docs" / "IDENTITY.md").read_text()
    section = re.search(r"## Try it\n(.*?)\n## ", text, re.DOTALL)[1]
    found = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    for name, port in ports.items():
        found = [block.replace(f":{name}", f":{port}") for block in found]
    return found


def test_what_a_newcomer_is_told_to_do_works(port, tmp_path):
    ports = {"8443": port().number, "8001": port().number}
    serving, ticket, token = blocks(ports)
    (tmp_path / "encke").symlink_to(BINARY)
    control = f"127.0.0.1:{ports['8001']}"
    env = {**ENVIRONMENT, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ENCKE_CONTROL": f"http://{control}"}

    def run(commands, **more):
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        shell = ["bash", "-ec", commands.rstrip().replace("\nencke ", "\nexec encke ")]
        return subprocess.Popen(shell, cwd=tmp_path, env={**env, **more}, **piped)

    server = run(serving, ENCKE_CONTROL=control, ENCKE_LISTEN="127.0.0.1:0")
    clients = []
    try:
        publish = lambda: encke("publish", "alice", "hello", env=env)
        until(lambda: publish().returncode == 0, "it serves")
        for commands in (ticket, token):
            client = run(f"{commands.rstrip()} --count 1")
            clients.append(client)
            until(lambda: publish() and client.poll() is not None, "it has heard")
            out, err = client.communicate(timeout=PATIENCE)
            assert (out, client.returncode) == ("hello\n", 0), err
        secure = ["--url", f"https://localhost:{ports['8443']}", "--ca", tmp_path / "cert.pem"]
        other = encke("listen", "bob", *secure, "--token-file", tmp_path / "token")
        assert other.returncode == 1 and "answered 403" in other.stderr, other.stderr
        nobody = encke("listen", "bob", *secure)
        assert nobody.returncode == 1 and "; pass --token-file or --ticket" in nobody.stderr, nobody.stderr
    finally:
        for process in (server, *clients):
            process.terminate()
            process.communicate(timeout=PATIENCE)
