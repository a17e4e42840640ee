"""Erlang nodes under test: their own epmd, BEAMs that run a script, and a peer that may be bad."""

import contextlib
import hashlib
import pathlib
import re
import socket
import struct
import subprocess
import tempfile

from .ports import Port
from .program import ENVIRONMENT, ROOT, address
from .wait import PATIENCE, until

COOKIE = "a-cookie-of-tests"
CLIENTS = ROOT / "clients" / "erlang"

# Evaluates each line of its input, as the shell does, and prints what came out of it.
SHELL = """
shell() ->
    case io:get_line("") of
        eof -> ok;
        Line ->
            {ok, Tokens, _} = erl_scan:string(Line),
            {ok, Expressions} = erl_parse:parse_exprs(Tokens),
            try erl_eval:exprs(Expressions, []) of
                {value, Value, _} -> say(Value)
            catch
                Class:Reason -> say({Class, Reason})
            end,
            shell()
    end.
"""

# What a node of OTP 25 says it can do, without a cache of atoms.
FLAGS = 0xd07df5fbc


class Epmd:
    """A port mapper of our own: that of the machine is left alone."""

    def __init__(self):
        self.place = Port()
        self.port = self.place.number
        self.process = None
        self.start()

    @property
    def environment(self):
        return {
            **ENVIRONMENT,
            "ERL_EPMD_PORT": str(self.port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_CRASH_DUMP_SECONDS": "0",
            "LC_ALL": "C.UTF-8",
        }

    def start(self):
        self.process = subprocess.Popen(
            ["epmd", "-port", str(self.port)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self.names_text, "epmd answering")

    def names_text(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as mapper:
                mapper.sendall(b"\x00\x01n")
                answer = b""
                while piece := mapper.recv(4096):
                    answer += piece
                return answer
        except OSError:
            return None

    def port_of(self, alive):
        """Where the node of this name is said to be, if one is registered."""
        names = (self.names_text() or b"")[4:].decode()
        found = re.search(rf"^name {alive} at port (\d+)$", names, re.M)
        return found and int(found[1])

    def stop(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.stop()
        self.place.close()


class Cluster:
    """An epmd, a cookie, an Encke, and BEAMs beside it."""

    def __init__(self, start, *flags, name="encke@127.0.0.1", **options):
        self.epmd = Epmd()
        self.name = name
        self.directory = tempfile.TemporaryDirectory(prefix="encke-erlang-")
        self.path = pathlib.Path(self.directory.name)
        self.cookie_file = self.path / "cookie"
        self.cookie_file.write_text(COOKIE + "\n")
        self.cookie_file.chmod(0o400)
        self.flags = ["--erlang-name", name, "--erlang-cookie-file", self.cookie_file, *flags]
        self.beams = []
        self.server = start(*self.flags, env={"ERL_EPMD_PORT": str(self.epmd.port)}, **options)
        self.wait_registered()

    def another(self, start, name, *flags, **options):
        """Starts one more Encke, beside the first."""
        flags = ["--erlang-name", name, "--erlang-cookie-file", self.cookie_file, *flags]
        server = start(*flags, env={"ERL_EPMD_PORT": str(self.epmd.port)}, **options)
        self.wait_registered(name, server)
        return server

    def wait_registered(self, name=None, server=None):
        # The name of one that was killed stays for an instant, with its port.
        alive, port = (name or self.name).partition("@")[0], address((server or self.server).said["erlang"])[1]
        until(lambda: self.epmd.port_of(alive) == port, "Encke registered with epmd")

    @property
    def address(self):
        return address(self.server.said["erlang"])

    def run(self, body, name="tester", timeout=60, **options):
        """Runs a script in a BEAM of its own, and returns the lines it printed."""
        beam = self.beam(body, name, **options)
        try:
            output, _ = beam.communicate(timeout=timeout)
        finally:
            beam.kill()
        assert beam.returncode == 0, output
        return output.splitlines()

    def beam(self, body, name="tester", hidden=False, attributes="", functions="", emulator=""):
        """Starts a script in a BEAM. `N` is Encke's node; `say/1` prints a term on a line."""
        script = self.path / f"{name}.escript"
        script.write_text(
            "#!/usr/bin/env escript\n"
            f"%%%%! -name {name}@127.0.0.1 -setcookie {COOKIE} -pa {self.path}"
            f" {'-hidden' if hidden else ''} +pc unicode +S 2 {emulator}\n"
            f"{attributes}"
            "-compile([export_all, nowarn_export_all]).\n"
            "say(Term) -> io:format(\"~0tp~n\", [Term]).\n"
            "call(To, Request) -> gen_server:call({To, '%s'}, Request).\n"
            "until(Ask) -> case Ask() of true -> true; _ -> timer:sleep(10), until(Ask) end.\n"
            "%s\nmain(_) ->\n    N = '%s', true = is_atom(N),\n%s.\n"
            % (self.name, functions, self.name, body)
        )
        until(lambda: not self.epmd.port_of(name), f"the name of the last {name} free")
        beam = subprocess.Popen(
            ["escript", script],
            env=self.epmd.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self.beams.append(beam)
        return beam

    def shell(self, name, **options):
        return Shell(self.beam("shell()", name, functions=SHELL, **options))

    def peer(self, **options):
        return Peer(self.address, self.name, **options)

    def figures(self):
        return self.server.totals()

    def stop(self):
        for beam in self.beams:
            beam.kill()
            beam.wait()
            beam.stdin.close()
            beam.stdout.close()
        self.epmd.close()
        self.directory.cleanup()


class Shell:
    """A BEAM that does what it is told, line by line, in one process."""

    def __init__(self, beam):
        self.beam = beam

    def __call__(self, expressions):
        """Evaluates expressions, and returns the value of the last as text."""
        self.beam.stdin.write(" ".join(expressions.split()) + ".\n")
        self.beam.stdin.flush()
        said = self.beam.stdout.readline()
        assert said, f"the BEAM ended: {expressions}"
        return said.removesuffix("\n")

    def until(self, expressions, value):
        """Evaluates expressions until they have a value."""
        found = []

        def is_found():
            found[:] = [self(expressions)]
            return found == [value]

        try:
            until(is_found, value)
        except AssertionError:
            raise AssertionError(f"{expressions} is {found}, not {value}") from None


class Peer:
    """A node made of bare bytes, that keeps to the protocol as far as it is told to."""

    def __init__(self, where, encke, name="peer@127.0.0.1", cookie=COOKIE, flags=FLAGS, shake=True):
        self.name = name.encode()
        self.encke = encke.encode()
        self.socket = socket.create_connection(where, PATIENCE)
        self.socket.settimeout(PATIENCE)
        if shake:
            self.say_name(flags)
            assert self.read_short() == b"sok"
            self.prove(self.read_short(), cookie)
            answer = self.read_short()
            assert answer[:1] == b"a", answer

    def say_name(self, flags=FLAGS):
        message = struct.pack(">cQIH", b"N", flags, 77, len(self.name)) + self.name
        self.write_short(message)

    def prove(self, challenge_message, cookie=COOKIE):
        assert challenge_message[:1] == b"N", challenge_message
        _, challenge = struct.unpack(">QI", challenge_message[1:13])
        digest = hashlib.md5(f"{cookie}{challenge}".encode()).digest()
        self.write_short(b"r" + struct.pack(">I", 1) + digest)

    def write_short(self, message):
        self.socket.sendall(struct.pack(">H", len(message)) + message)

    def read_short(self):
        (size,) = struct.unpack(">H", self.read(2))
        return self.read(size)

    def read(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError(data)
            data += piece
        return data

    def is_closed(self):
        """Whether Encke ends the connection; what it says before does not count."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def packet(self, content):
        self.socket.sendall(struct.pack(">I", len(content)) + content)

    def send(self, payload, to=b"any"):
        """A message to a registered name; `payload` is an encoded term."""
        self.packet(b"\x83\x44\x00" + self.control(to) + payload)

    def control(self, to=b"any"):
        return b"\x68\x04\x61\x06" + self.pid() + atom(b"") + atom(to)

    def pid(self):
        return b"\x58" + atom(self.name) + struct.pack(">III", 5, 0, 77)

    def tick(self):
        self.packet(b"")

    def close(self):
        self.socket.close()


def atom(text):
    return struct.pack(">BB", 119, len(text)) + text


def binary(data):
    return struct.pack(">BI", 109, len(data)) + data


def pair(first, second):
    return b"\x68\x02" + first + second


@contextlib.contextmanager
def cluster(start, *flags, **options):
    one = Cluster(start, *flags, **options)
    try:
        yield one
    finally:
        one.stop()

