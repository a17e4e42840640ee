"""The container: what the image has, in a root of its own as its user, and compose.yaml for one server. No engine runs here."""

import contextlib
import json
import os
import re
import signal
import subprocess

import pytest
import yaml

from support.program import BINARY, ENVIRONMENT, PROGRAMS, ROOT, encke, installed
from support.tls import AUTHORITY, tls_endpoint
from support.wait import PATIENCE, until

DOCKERFILE = (ROOT / "Dockerfile").read_text()
CONTAINER = ROOT / "contrib" / "container"
COMPOSE = yaml.safe_load((CONTAINER / "compose.yaml").read_text())
SERVICE = COMPOSE["services"]["encke"]
# The one that runs the program, by Dockerfile and by contrib/container/root.
USER = int(re.search(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)[1])
# What the C library brings. Anything else would be another package to keep up to date in the image.
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1"}


def stages():
    """The instructions of each stage of the Dockerfile."""
    lines = [line for line in DOCKERFILE.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    made = []
    for line in lines:
        if line.startswith("FROM "):
            made.append([])
        made[-1].append(line)
    return made


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_needs_no_more_than_the_c_library(program):
    told = subprocess.run([installed("readelf"), "-d", BINARY.with_name(program)], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", told))
    needed = {name for name in needed if not name.startswith("ld-linux")}
    assert needed and needed <= LIBRARIES, needed
    # It looks for them where the loader does, and nowhere else.
    assert not re.search(r"\((RPATH|RUNPATH)\)", told), told


def test_the_image_is_built_from_nothing_and_runs_a_command_that_exists_and_not_as_root():
    build, image = stages()
    minimum = re.search(r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert build[0].startswith(f"FROM rust:{minimum[1]}-") and image[0] == "FROM scratch"
    assert "RUN contrib/container/root target/release /image && install -d /data" in build
    copied = [line for line in image if line.startswith("COPY ")]
    assert copied == ["COPY --from=build /image /", f"COPY --from=build --chown={USER}:{USER} /data /data"]
    assert USER > 0
    # The program is run in the image while that is built, after the user is set.
    words = [line.split()[0] for line in image]
    (run,) = (line for line in image if line.startswith("RUN "))
    assert words.index("USER") < words.index("RUN")
    entry, command = (json.loads(next(line for line in image if line.startswith(f"{word} ")).split(None, 1)[1])
                      for word in ("ENTRYPOINT", "CMD"))  # fmt: skip
    assert entry == ["/usr/bin/encke"]
    for arguments in (command, json.loads(run.removeprefix("RUN "))[1:]):
        done = encke(*arguments)
        assert done.returncode == 0, done.stderr


def test_secrets_do_not_get_into_the_image():
    for file in (".dockerignore", ".gitignore"):
        lines = (ROOT / file).read_text().splitlines()
        assert "contrib/container/secrets" in [line.lstrip("/") for line in lines], file
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].startswith("secrets/")


class Root:
    """The root directory of the image with what an engine adds: a volume, hosts, settings and secrets."""

    def __init__(self, directory):
        self.directory = directory
        subprocess.run([CONTAINER / "root", BINARY.parent, directory], check=True, timeout=PATIENCE)

    def mount(self, path, content, mode=0o644, owner=0):
        path = self.directory / path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
        os.chown(path, owner, owner)

    def volume(self, path):
        path = self.directory / path.lstrip("/")
        path.mkdir(mode=0o755)
        os.chown(path, USER, USER)

    def begin(self, *arguments, **options):
        """Starts the program as the user of the image, in its root."""

        def enter():
            os.chroot(self.directory)
            os.chdir("/")
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)

        env = {name: value for name, value in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
        piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = ["/usr/bin/encke", *map(str, arguments)]
        return subprocess.Popen(command, preexec_fn=enter, env=env, **piped, **options)

    def run(self, *arguments):
        process = self.begin(*arguments)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, out + err
        return out

    @contextlib.contextmanager
    def serving(self, command):
        """Runs the server of compose.yaml; its control listener. It must end well when it is told to."""
        ports = self.directory / "data" / "ports"
        ports.unlink(missing_ok=True)
        process = self.begin(*command, "--ports-file", "/data/ports", "--drain-timeout", "1s")
        try:

            def listens():
                assert process.poll() is None, process.communicate()
                return ports.exists() and ports.read_text() and json.loads(ports.read_text())["control"]

            yield until(listens, "it serves")
            # As an engine does it.
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def root(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("it needs root, to make a directory the root of a program")
    # Whoever runs the program enters it.
    for directory in (tmp_path, *tmp_path.parents):
        if directory.owner() == "root" and directory.name.startswith("pytest"):
            directory.chmod(0o755)
    return Root(tmp_path / "root")


def test_the_image_has_what_the_program_needs_and_nothing_else(root):
    files = {str(path.relative_to(root.directory)) for path in root.directory.rglob("*") if not path.is_dir()}
    libraries = {file for file in files if file.startswith(("lib", "usr/lib"))}
    assert files - libraries == {*(f"usr/bin/{program}" for program in PROGRAMS), "etc/passwd", "etc/group", "etc/ssl/certs/ca-certificates.crt"}
    names = {os.path.basename(file) for file in libraries if not os.path.basename(file).startswith("ld-linux")}
    assert names == LIBRARIES, libraries
    for file in files:
        assert os.stat(root.directory / file).st_uid == 0 and not os.stat(root.directory / file).st_mode & 0o022
    assert "encke" in root.run("--version")


def test_the_server_of_compose_serves_in_the_image_and_keeps_what_it_has(root):
    command = SERVICE["command"]
    assert command[0] == "serve"
    (config,) = SERVICE["configs"]
    settings = (CONTAINER / COMPOSE["configs"][config["source"]]["file"]).read_text()
    for address in ("0.0.0.0:8000", "0.0.0.0:8001"):
        assert f'"{address}"' in settings
        settings = settings.replace(address, "127.0.0.1:0")
    root.mount(config["target"], settings)
    for secret in SERVICE["secrets"]:
        content = f"{secret}-of-more-than-thirty-two-characters\n"
        root.mount(f"/run/secrets/{secret}", content, mode=0o600, owner=USER)
    root.mount("/etc/hosts", "127.0.0.1 localhost\n")
    for volume in SERVICE["volumes"]:
        root.volume(volume.partition(":")[2])
    token = ["--control-token-file", "/run/secrets/control-token"]
    with root.serving(command) as control:
        # A name, which the C library looks up.
        url = control.replace("127.0.0.1", "http://localhost")
        root.run("subscribe", "alice", "rj", "--control", url, *token)
    with root.serving(command) as control:
        receipt = json.loads(root.run("publish", "rj", "hello", "--json", "--control", f"http://{control}", *token))
        assert receipt["subscribers"] == 2
    # It has written to its volume only.
    owned = {path.relative_to(root.directory).parts[0] for path in root.directory.rglob("*") if path.stat().st_uid == USER}
    assert owned == {"data", "run"}, owned


def test_clients_in_the_image_trust_the_authorities_that_it_has(root, server):
    root.mount("/etc/hosts", "127.0.0.1 localhost\n")
    with tls_endpoint(server.control) as url:
        url = url.replace("127.0.0.1", "localhost")
        refused = root.begin("publish", "rj", "hello", "--control", url)
        _, err = refused.communicate(timeout=PATIENCE)
        assert refused.returncode == 1 and "certificate" in err, err
        root.mount("/etc/ssl/certs/ca-certificates.crt", AUTHORITY.read_text())
        root.run("publish", "rj", "hello", "--control", url)


def test_compose_bounds_the_server_and_gives_it_time_to_end(tmp_path):
    assert SERVICE["read_only"] and SERVICE["cap_drop"] == ["ALL"] and "user" not in SERVICE
    grace, drain = (
        int(re.fullmatch(r"(\d+)s", text)[1])
        for text in (
            SERVICE["stop_grace_period"],
            re.search(r'^drain-timeout = "(.*)"', (CONTAINER / "encke.toml").read_text(), re.MULTILINE)[1],
        )
    )
    assert grace >= drain + 10
    # Engines refuse to write settings that stand in the file itself into a container that is read only.
    assert all(set(config) == {"file"} for config in COMPOSE["configs"].values())
    # Everybody reaches the public listener; the control listener this machine only.
    assert SERVICE["ports"] == ["8000:8000", "127.0.0.1:8001:8001"]
    exposed = re.search(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)[1].split()
    assert [port.rpartition(":")[2] for port in SERVICE["ports"]] == exposed
    assert {name for name in COMPOSE["volumes"]} == {volume.partition(":")[0] for volume in SERVICE["volumes"]}
    assert (CONTAINER / SERVICE["build"] / "Dockerfile").exists()


def test_the_secrets_of_compose_are_made_as_its_first_lines_say(tmp_path):
    text = (CONTAINER / "compose.yaml").read_text()
    commands = re.findall(r"^#   (.*)$", text, re.MULTILINE)
    making = [command for command in commands if "secrets" in command and "docker" not in command]
    assert len(making) == 3 and str(USER) in making[0] and str(USER) in making[2]
    script = "\n".join(making)
    if os.geteuid() != 0:
        script = script.replace(str(USER), str(os.getuid()))
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True, timeout=PATIENCE)
    for secret in COMPOSE["secrets"].values():
        path = tmp_path / secret["file"]
        assert len(path.read_text().strip()) >= 32 and path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_uid == (USER if os.geteuid() == 0 else os.getuid())
    (publish,) = (command for command in commands if "docker compose exec" in command)
    words = publish.removeprefix("docker compose exec encke encke ").split()
    # It fails as there is no server, and not as it is not understood, which would be 2.
    path = tmp_path / "secrets" / "control-token"
    done = encke(*[word.replace("/run/secrets/control-token", str(path)) for word in words], "--control", "http://127.0.0.1:9")
    assert done.returncode == 1, done.stderr
