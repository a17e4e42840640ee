"""Every example of every help text, and every block of commands in the documentation, is run as it stands there, or is listed here
with the reason why it is not.

They run in a network of their own, so that the ports in them are free, in a directory with the files that they name. Counts and
times in them are made smaller, and what is below /var/lib is below this directory; nothing else is changed.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from support.node import NODE
from support.program import BINARY, ENVIRONMENT, PROGRAMS, ROOT, encke, installed
from support.tls import Authority
from support.wait import PATIENCE, until

COMMANDS = """serve publish send listen subscribe unsubscribe sessions ticket revoke top doctor plan record plot prove graph
    graph\\ check graph\\ stats graph\\ export graph\\ compact graph\\ backup friends friends\\ load friends\\ generate drive flood
    compare tcp hello completions man cluster cluster\\ import cluster\\ status cluster\\ drain explain online"""

# What an example is not run for. Each pattern must be found.
NOT_RUN = {
    r"^sudo ": "it changes settings of the machine; test_doctor runs it without --apply",
    r"/etc/bash_completion\.d/|~/\.zfunc|~/\.config/fish|/usr/local/share/man":
        "it writes where the user's files are; test_operations makes the same files elsewhere",
    r"push\.example\.com": "it names a server that there is not",
    r"^encke-lab prove --connections 1000000 |^encke-lab prove .*(--restart|--degree)": "it takes minutes; test_prove runs them smaller",
    r"^encke-lab compare ": "it measures a release build for minutes",
    r"^encke-lab prove ": "it starts servers and clients of its own for a minute; test_prove runs it smaller",
    r"--pid 4242|--name \"encke serve\"": "it names a process of the reader; test_record runs it with one of its own",
    r"127\.0\.0\.1:9000/(pub|$| )|ws://127\.0\.0\.1:9000": "it is for another server than Encke; test_drive and test_flood have some",
    r"https://localhost:8443/events/\{n\}": "it needs a listener with TLS; test_flood_tls runs it",
    r"http://10\.0\.0\.7": "it names another machine",
    r"http://127\.0\.0\.1:9001": "it looks at a proxy; test_top does so",
    r"tail -f": "it follows a file for ever; test_commands publishes from a pipe",
    r"^encke cluster ": "it needs servers of NATS; test_cluster_recipes runs the commands of a cluster",
}  # fmt: skip

# What a line of an indented block of a document is not run for, besides. Each pattern must be found.
LINES_NOT_RUN = {
    r"^make (run|lab|proxy|test|faults|fuzz|planted|black-box|nightly|reproducible|sbom|deny)|-m pytest": "it builds, or runs all tests, of which this is one",
    r"^make cluster|target/cluster|through the proxy|127\.0\.0\.1:80[12]1": "test_cluster_recipes runs `make cluster`",
    r"--apply|/etc/sysctl\.d": "it changes settings of the machine; test_doctor runs it without",
    r"--erlang-name": "it needs epmd; test_erlang runs it, and what a BEAM says to it",
    r"^(install|useradd|chgrp|systemctl) |^\(umask 027": "it installs a service; test_operations does so elsewhere",
    r"^docker ": "it needs a daemon of Docker; test_operations has what is in the image",
    r"^lab/benches/": "it measures a release build; test_proxy shares a poller",
}

# Commands that go on until they are stopped.
ENDLESS = re.compile(
    r"^encke (serve(?!.*--check-config)|top(?!.*--once)|listen(?!.*--count))|^encke listen --ticket"
    r"|^encke-proxy (hello|tcp(?!.*--check-config))"
)

# Counts and times that an example needs not have to be right.
SMALLER = [
    (r"(flood .*--connections) \d+", r"\1 20"),
    (r"(flood (?!.*--duration).*)", r"\1 --duration 1s"),
    (r"(--duration) \d+s", r"\1 1s"),
    (r"(generate --users) \d+", r"\1 600"),
    (r"(--max-id) \d+", r"\1 100"),
    (r"(--rate) \d+(?=.*--(duration|targets))(?!.*--friends)", r"\1 50"),
    (r"(drive .*--targets degree.*)", r"\1 --duration 1s"),
    (r"(--senders) \d+", r"\1 5"),
    (r"(drive .*--count) \d+", r"\1 50"),
    (r"(serve --workers) \d+", r"\1 2"),
    (r"/var/lib/", r"var/"),
    (r"--ramp \d+", r"--ramp 20"),
]

# Exit codes that say something about the machine or the data, and not about the example.
MAY_FAIL = {
    r"^encke doctor": {0, 1},
    r"--expect-no-loss|--expect-exact": {0, 1},
    r"^encke unsubscribe": {0, 1},
}

# What a block of a document is not run for, by words in it.
BLOCKS_NOT_RUN = {
    ("docs/CONTROL.md", "control.example.org"): "test_control_tls runs it with certificates and addresses of this machine",
    ("docs/API.md", "curl -N"): "the stream has no end; test_presence_control reads it",
    ("docs/API.md", "/v1/tickets"): "it needs --tickets; test_identity issues tickets",
    ("docs/API.md", "/v1/cluster"): "it needs a cluster; test_cluster_operations asks one",
    ("docs/CONTROL.md", "backend.example"): "it names a backend that there is not; test_webhook has one",
    ("docs/OPERATIONS.md", "monday.redb"): "test_operations.test_a_backup_is_restored runs it",
    ("docs/IDENTITY.md", ""): "test_try_it and test_identity run the recipes of this page",
    ("docs/CLUSTER.md", "--cluster nats://"): "it needs servers of NATS; test_cluster_recipes runs it",
}


def examples():
    """The examples of all help texts, with their commands."""
    found = []
    for command in re.split(r"(?<!\\)\s+", COMMANDS.strip()):
        words = command.replace("\\ ", " ").split()
        text = encke(*words, "--help").stdout
        section = re.search(r"^Examples?:\n((?:  .*\n?|\n)+)", text, re.MULTILINE)
        assert section or words == ["prove"], f"the help of {words} has no example"
        found += [(" ".join(words), line.strip()) for line in (section[1] if section else "").splitlines() if line.strip()]
    return found


def test_no_command_is_left_out():
    commands = set()
    for program in PROGRAMS:
        help = subprocess.run([BINARY.with_name(program), "--help"], capture_output=True, text=True, timeout=PATIENCE).stdout
        listed = re.search(r"^Commands:\n(.*?)\n\n", help, re.DOTALL | re.MULTILINE)[1]
        commands |= set(re.findall(r"^  (\w+)", listed, re.MULTILINE)) - {"help"}
    assert commands == set(re.findall(r"(?<!\\ )\b\w+", COMMANDS)), commands


def reason(example):
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, example)), None)


@pytest.fixture(scope="module")
def network():
    """A network of its own, in which no port is taken. It lasts as long as a process in it."""
    try:
        command = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 3000"]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as missing:
        pytest.skip(f"it needs {missing.filename}")
    if holder.stdout.readline() != "up\n":
        pytest.skip(f"it needs root, for a network of its own: {holder.communicate()[1].strip()}")
    yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    holder.terminate()
    holder.communicate()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with the files that examples name."""
    path = tmp_path_factory.mktemp("examples")
    (path / "bin").mkdir()
    for program in PROGRAMS:
        (path / "bin" / program).symlink_to(BINARY.with_name(program))
    (path / "bin" / "node").symlink_to(NODE.resolve())
    # The Python of the tests has what the client needs; the client itself is found by PYTHONPATH.
    (path / "bin" / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (path / "bin" / "python3").chmod(0o755)
    for name in ("clients", "examples"):
        (path / name).symlink_to(ROOT / name)
    (path / "var" / "encke").mkdir(parents=True)
    authority = Authority(path / "authority")
    certificate = authority.issue("localhost")
    shutil.copy(path / "authority" / "authority.pem", path / "authority.pem")
    public = [installed("openssl"), "x509", "-pubkey", "-noout", "-in", certificate.chain]
    (path / "issuer.pem").write_bytes(subprocess.run(public, capture_output=True, check=True).stdout)
    shutil.copy(certificate.chain, path / "cert.pem")
    shutil.copy(certificate.key, path / "key.pem")
    for name in ("secret", "token"):
        (path / name).write_text("0123456789-0123456789-0123456789-0123456789\n")
        (path / name).chmod(0o600)
    (path / "encke.toml").write_text('listen = ["127.0.0.1:8000"]\n')
    (path / "proxy.toml").write_text('[[listener]]\nlisten = "127.0.0.1:9000"\nto = ["127.0.0.1:8000"]\n')
    (path / "friends.txt").write_text("".join(f"{a} {a + 1}\n" for a in range(1, 100)))
    (path / "log").write_text("")
    assert encke("friends", "load", "friends.txt", "--data", "encke-data", cwd=path).returncode == 0
    record = ["record", "--pid", str(os.getpid()), "--every", "100ms", "--duration", "1s", "-o"]
    for name in ("mem.csv", "before.csv", "after.csv"):
        done = encke(*record, name, cwd=path)
        assert done.returncode == 0, done.stderr
    return path


class Shell:
    """Runs commands in a network and a directory, each with all that it starts."""

    def __init__(self, network, directory):
        self.network, self.directory = network, directory
        path = f"{directory / 'bin'}:{os.environ['PATH']}"
        # Servers that an example starts keep what they have in this directory.
        own = {name: value for name, value in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
        self.env = {**own, "PATH": path, "HOME": str(directory)}

    def start(self, script, output=subprocess.DEVNULL):
        piped = {"stdout": output, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        shell = [*self.network, "bash", "-o", "pipefail", "-ec", script]
        return subprocess.Popen(shell, cwd=self.directory, env=self.env, start_new_session=True, **piped)

    def stop(self, process):
        """Ends a process with its children, and no other one: it has a session of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)

    def run(self, script, seconds=60):
        """The exit code and the output; None for one that goes on."""
        with open(self.directory / "output", "w+", errors="replace") as output:
            process = self.start(script, output)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            self.stop(process)
            output.seek(0)
            return code, output.read()[-2000:]


@pytest.fixture
def shell(network, directory):
    return Shell(network, directory)


@contextlib.contextmanager
def served(shell, *flags):
    """A server at the addresses that all commands use by themselves."""
    server = shell.start(" ".join(["exec encke serve --data served --presence --drain-timeout 100ms", *flags]))
    try:
        until(lambda: shell.run("curl -sf -o /dev/null localhost:8001/readyz")[0] == 0, "it serves")
        assert shell.run("encke subscribe alice rj")[0] == 0
        yield server
    finally:
        shell.stop(server)


def smaller(example):
    for pattern, text in SMALLER:
        example = re.sub(pattern, text, example)
    return example


def test_no_reason_is_for_an_example_that_there_is_not():
    all_examples = [example for _, example in examples()]
    assert len(all_examples) > 70
    for pattern in NOT_RUN:
        assert any(re.search(pattern, example) for example in all_examples), pattern
    assert any("{n}" in example for example in all_examples), "placeholders are shown"


def failure(shell, example):
    """Runs an example, and says what went wrong."""
    script = smaller(example)
    endless = ENDLESS.search(example)
    code, output = shell.run(script, 2 if endless else 60)
    allowed = next((codes for pattern, codes in MAY_FAIL.items() if re.search(pattern, example)), {0})
    # One that is endless went on, or has been told all that it asked for.
    if code in (allowed | {None} if endless else allowed):
        return None
    return f"{script}\n  exit code {code}\n{output}"


def needs_no_server(command, example):
    offline = command.startswith("graph") and "--online" not in example
    loads = command in ("friends", "friends load") and "--online" not in example
    return command in ("serve", "hello", "doctor", "plan", "plot", "man") or offline or loads


def test_examples_that_need_no_server_work(shell):
    failures = []
    for command, example in examples():
        if needs_no_server(command, example) and not reason(example):
            for name in ("monday.redb", "edges.txt"):
                (shell.directory / name).unlink(missing_ok=True)
            failures.append(failure(shell, example))
    assert len(failures) > 15
    assert not any(failures), "\n".join(filter(None, failures))


def failures_beside(shell, wanted):
    """What went wrong with the wanted examples beside a server."""
    failures = []
    for command, example in examples():
        if not needs_no_server(command, example) and not reason(example) and wanted(example):
            (shell.directory / "monday.redb").unlink(missing_ok=True)
            publishing = shell.start("while sleep 0.2; do encke publish rj hello; done") if "--count 1" in example else None
            try:
                failures.append(failure(shell, example))
            finally:
                if publishing:
                    shell.stop(publishing)
    return failures


def is_of_tickets(example):
    return re.search(r"^encke (ticket|revoke)|--ticket|--jwt-secret-file", example) is not None


def test_examples_work_beside_a_server(shell):
    with served(shell):
        failures = failures_beside(shell, lambda example: not is_of_tickets(example))
    assert len(failures) > 25
    assert not any(failures), "\n".join(filter(None, failures))


def test_examples_work_beside_a_server_with_tickets(shell):
    with served(shell, "--tickets", "--jwt-secret-file secret"):
        failures = failures_beside(shell, is_of_tickets)
    assert len(failures) > 3
    assert not any(failures), "\n".join(filter(None, failures))


FENCED = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+")


def documents():
    """All documents with their texts: those of the repository's root and of its directories."""
    places = ["*.md", "docs/*.md", "clients/*/README.md", "examples/*/README.md", "contrib/**/*.md", "harness/tests/README.md"]
    for place in places:
        for document in sorted(ROOT.glob(place)):
            yield str(document.relative_to(ROOT)), document.read_text()


def blocks(of="docs/ clients/ README.md SECURITY.md CONTRIBUTING.md"):
    """The fenced blocks of commands of documents."""
    for document, text in documents():
        for language, block in FENCED.findall(text):
            assert language not in ("bash", "shell", "console"), f"{document}: the tests look for `sh`"
            if language == "sh" and document.startswith(tuple(of.split())):
                yield document, block


def is_command(line):
    """Whether a line begins with a program, and not with a word of a log, a table or another language."""
    word = line.split()[0].lstrip("(")
    own = (ROOT / word).is_file() or word in (*PROGRAMS, "docker", "systemctl", "useradd", "umask")
    return own or (re.fullmatch(r"[a-z][\w.-]*", word) is not None and shutil.which(word) is not None)


def indented_lines():
    """The commands of the indented blocks of all documents. Each is an example of its own."""
    for document, text in documents():
        for block in INDENTED.findall(FENCED.sub("", text)):
            lines = [line.strip() for line in block.replace("\\\n", " ").splitlines() if line.strip()]
            if is_command(lines[0]):
                yield from ((document, line) for line in lines)


def block_reason(document, block):
    return next((why for (of, words), why in BLOCKS_NOT_RUN.items() if of == document and words in block), None)


def test_blocks_of_commands_work_as_they_stand(shell):
    found = list(blocks())
    for document, words in BLOCKS_NOT_RUN:
        assert any(of == document and words in block for of, block in found), (document, words)
    wanted = [(document, block) for document, block in found if block_reason(document, block) is None]
    assert len(wanted) > 3
    with served(shell):
        for document, block in wanted:
            # An error of the server is one of the block.
            code, output = shell.run(f'curl() {{ command curl -sS --fail-with-body "$@"; }}\n{block}')
            assert code == 0, f"{document}\n{block}\n{output}"


def line_reason(line):
    return next((why for pattern, why in LINES_NOT_RUN.items() if re.search(pattern, line)), None) or reason(line)


def test_indented_commands_of_documents_work_as_they_stand(shell):
    found = list(indented_lines())
    for pattern in LINES_NOT_RUN:
        assert any(re.search(pattern, line) for _, line in found), pattern
    wanted = [(document, line) for document, line in found if line_reason(line) is None]
    assert len(wanted) >= 20, wanted
    assert {document for document, _ in wanted} >= {"README.md", "docs/LAB.md", "docs/PROXY.md", "docs/HISTORY.md"}

    def is_alone(line):
        return re.match(r"encke (serve|doctor|plan)\b|encke-proxy hello\b|encke-lab (friends|plot)\b", line) is not None

    failures = [f"{document}: {failed}" for document, line in wanted if is_alone(line) and (failed := failure(shell, line))]
    with served(shell):
        beside = [(document, line) for document, line in wanted if not is_alone(line)]
        failures += [f"{document}: {failed}" for document, line in beside if (failed := failure(shell, line))]
    assert not failures, "\n".join(failures)


# What each application of `examples` shows when its commands were given.
EXAMPLES = {
    "examples/builds/README.md": lambda shell, said: "kernel 17: failed" in said(),
    "examples/chat/README.md": lambda shell, said: is_page(shell, "Chat"),
    "examples/feed/README.md": lambda shell, said: is_page(shell, "Feed"),
}


def is_page(shell, title):
    return shell.run(f"curl -sf localhost:3000/ | grep -F '<title>{title}'")[0] == 0


@pytest.mark.parametrize("document", EXAMPLES)
def test_commands_of_an_example_start_it(shell, document):
    ((_, block),) = blocks(of=document)
    # The package index is not needed: the client is used from where it is.
    script = block.replace("pip install ./clients/python", "export PYTHONPATH=clients/python/src")
    # A reader types slowly enough for a server to be there.
    there = "until curl -s -o /dev/null localhost:{}; do sleep 0.1; done\n".format
    script = script.replace("&\n", f"&\n{there('8001/readyz')}", 1)
    script = re.sub(r"(python3 \S+backend\.py &\n)", rf"\1{there('3000')}", script)
    script = re.sub(r"(python3 \S+watch\.py.* &\n)", r"\1until [ -e builds.cursor ]; do sleep 0.1; done\n", script)
    with open(shell.directory / "said", "w+") as output:
        process = shell.start(script + "\nwait", output)
        try:
            said = (shell.directory / "said").read_text
            until(lambda: process.poll() is not None or EXAMPLES[document](shell, said), document)
            assert process.poll() is None, f"it ended:\n{script}\n{said()}"
        finally:
            shell.stop(process)
            until(lambda: shell.run("curl -s -o /dev/null localhost:8001/livez")[0] != 0, "the server has ended")


def test_no_application_is_left_out():
    assert {document for document, _ in blocks(of="examples/")} == set(EXAMPLES)
