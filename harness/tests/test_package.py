"""The package for Debian: what is in it, and that a purge leaves nothing of it behind."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from support.program import BINARY, PROGRAMS, ROOT
from support.wait import PATIENCE

CRATE = ROOT / "crates" / "encke"
SCRIPTS = ROOT / "contrib" / "deb"
PACKAGE = tomllib.loads((CRATE / "Cargo.toml").read_text())["package"]["metadata"]["deb"]
# What is not in the repository: `make deb` makes it.
MADE = "../../target/deb/"
SHELLS = ("bash", "zsh", "fish")
# What the scripts of the package and dpkg need in the root that it is installed into.
TOOLS = "sh rm head base64 chgrp chmod getent useradd userdel groupdel".split()


def make(directory):
    """Makes manual pages and completions as `make deb` does."""
    for program in PROGRAMS:
        run = [BINARY.with_name(program)]
        subprocess.run([*run, "man", "--output", directory / "man"], check=True, timeout=PATIENCE)
        for shell in SHELLS:
            made = subprocess.run([*run, "completions", shell], check=True, capture_output=True, text=True, timeout=PATIENCE)
            assert program in made.stdout
            (directory / f"{program}.{shell}").write_text(made.stdout)


def sources(source, made):
    """The files of an asset. Some are made."""
    if source.startswith("target/release/"):
        return [BINARY.with_name(source.removeprefix("target/release/"))]
    if source.startswith(MADE):
        return sorted(made.glob(source.removeprefix(MADE)))
    return sorted(CRATE.glob(source))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What the package has: for each path its source and its mode."""
    made = tmp_path_factory.mktemp("made")
    (made / "man").mkdir()
    make(made)
    files = {}
    for source, target, mode in PACKAGE["assets"]:
        found = sources(source, made)
        assert found, f"there is no {source}"
        assert target.endswith("/") or len(found) == 1, f"{source} are several files, and {target} is one"
        for file in found:
            path = target + file.name if target.endswith("/") else target
            assert path not in files, f"{path} is there twice"
            files[path] = (file, int(mode, 8))
    return files


def test_the_package_has_what_operators_need_where_they_look_for_it(files):
    for path in ("usr/bin/encke", "usr/bin/encke-proxy", "usr/bin/encke-lab", "usr/lib/systemd/system/encke.service", "etc/encke/encke.toml", "etc/logrotate.d/encke",
                 "usr/share/man/man1/encke.1", "usr/share/man/man1/encke-serve.1", "usr/share/man/man1/encke-graph-backup.1",
                 "usr/share/man/man1/encke-proxy-tcp.1", "usr/share/man/man1/encke-lab-flood.1",
                 "usr/share/bash-completion/completions/encke", "usr/share/zsh/vendor-completions/_encke",
                 "usr/share/fish/vendor_completions.d/encke.fish", "usr/share/doc/encke/docs/OPERATIONS.md"):  # fmt: skip
        assert path in files, path
    for path, (_, mode) in files.items():
        assert re.match(r"(usr|etc)/", path) and mode in (0o755, 0o644, 0o640), path
        assert (mode == 0o755) == path.startswith("usr/bin/"), path
    # What an administrator may change is kept at an upgrade.
    assert set(PACKAGE["conf-files"]) == {f"/{path}" for path in files if path.startswith("etc/")}
    assert (CRATE / PACKAGE["license-file"][0]).exists()


def test_make_deb_makes_what_is_not_in_the_repository():
    recipe = re.search(r"^deb:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    made = {source.removeprefix(MADE) for source, _, _ in PACKAGE["assets"] if source.startswith(MADE)}
    assert made == {"man/*.1", *(f"{program}.{shell}" for program in PROGRAMS for shell in SHELLS)}
    assert f"for program in {' '.join(PROGRAMS)};" in recipe
    assert f"for shell in {' '.join(SHELLS)};" in recipe and "man --output target/deb/man" in recipe


def test_the_unit_of_the_package_starts_what_the_package_has(files):
    unit = files["usr/lib/systemd/system/encke.service"][0].read_text()
    for path in re.findall(r"^Exec\w+=(/usr/bin/encke) .*--config (\S+)", unit, re.MULTILINE):
        assert {name.lstrip("/") for name in path} <= files.keys(), path


@pytest.fixture
def root(tmp_path):
    """A root directory that has what scripts of packages need, and dpkg's records."""
    if os.geteuid() != 0:
        pytest.skip("it needs root, to install a package into a directory")
    if not shutil.which("dpkg-deb"):
        pytest.skip("it needs dpkg, which Debian has")
    root = tmp_path / "root"
    for directory in ("etc", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "dev"):
        (root / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/shadow").write_text("root:*:20000:0:99999:7:::\n")
    (root / "etc/gshadow").write_text("root:*::\n")
    for program in TOOLS:
        path = shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin")
        assert path, program
        told = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for file in [path, *re.findall(r"(/\S+)", told)]:
            target = root / file.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(os.path.realpath(file), target)
    # Scripts name the shell where every system has it.
    (root / "bin").mkdir(exist_ok=True)
    if not (root / "bin/sh").exists():
        shutil.copy(os.path.realpath("/bin/sh"), root / "bin/sh")
    os.mknod(root / "dev/null", 0o666 | 0o020000, os.makedev(1, 3))
    os.mknod(root / "dev/urandom", 0o666 | 0o020000, os.makedev(1, 9))
    return root


def built(files, directory):
    """A package of these files, with the control files that its description asks for."""
    tree = directory / "tree"
    for path, (source, mode) in files.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        target.chmod(mode)
    control = tree / "DEBIAN"
    control.mkdir()
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    (control / "control").write_text(
        f"Package: encke\nVersion: 1.0\nArchitecture: {architecture}\nMaintainer: {PACKAGE['maintainer']}\nDescription: a push server\n"
    )
    (control / "conffiles").write_text("".join(f"{path}\n" for path in PACKAGE["conf-files"]))
    for script in SCRIPTS.iterdir():
        shutil.copy(script, control)
    package = directory / "encke.deb"
    # Not compressed: it is unpacked at once.
    build = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, package]
    subprocess.run(build, check=True, capture_output=True, timeout=PATIENCE)
    return package


def dpkg(root, *arguments):
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["dpkg", f"--root={root}", *arguments], capture_output=True, text=True, env=env, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def left(root):
    """Everything below a root but dpkg's records and the copies that useradd makes."""
    paths = {str(path.relative_to(root)): path for path in root.rglob("*") if not path.is_relative_to(root / "var/lib/dpkg")}
    return {
        name: path.read_text() if name in ("etc/passwd", "etc/group") else None
        for name, path in paths.items()
        if not re.fullmatch(r"etc/(passwd-|group-|g?shadow-?|sub[ug]id-?|\.pwd\.lock)|var/log", name)
    }


def test_an_installed_package_has_a_user_and_secrets_and_a_purge_leaves_nothing(files, root, tmp_path):
    before = left(root)
    package = built(files, tmp_path)
    said = dpkg(root, "--install", package)
    assert "systemctl enable --now encke" in said
    user = re.search(r"^encke:x:(\d+):(\d+):.*:/usr/sbin/nologin$", (root / "etc/passwd").read_text(), re.MULTILINE)
    group = int(user[2])
    secrets = {}
    for name in ("encke.toml", "control-token", "jwt-secret"):
        path = root / "etc/encke" / name
        assert path.stat().st_mode & 0o777 == 0o640 and path.stat().st_gid == group, name
        secrets[name] = path.read_text()
    assert len(secrets["control-token"].strip()) >= 32 and secrets["control-token"] != secrets["jwt-secret"]
    # What the service makes, by StateDirectory and LogsDirectory of its unit.
    unit = (root / "usr/lib/systemd/system/encke.service").read_text()
    for kind, place in (("State", "var/lib"), ("Logs", "var/log")):
        directory = root / place / re.search(rf"^{kind}Directory=(.*)$", unit, re.MULTILINE)[1]
        (directory / "graph").mkdir(parents=True)
        (directory / "graph" / "file").touch()
    wanted = root / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir(parents=True)
    (wanted / "encke.service").symlink_to("/usr/lib/systemd/system/encke.service")

    dpkg(root, "--install", package)
    dpkg(root, "--remove", "encke")
    assert not (root / "usr/bin/encke").exists()
    for name, content in secrets.items():
        assert (root / "etc/encke" / name).read_text() == content, "kept until the purge"
    assert (root / "var/lib/encke/graph/file").exists() and (root / "var/log/encke/graph/file").exists()

    dpkg(root, "--purge", "encke")
    after = left(root)
    # Directories of systemd and of all programs, which are there on a whole machine.
    shared = {"etc/systemd", "etc/systemd/system", "etc/systemd/system/multi-user.target.wants"}
    assert after.keys() - before.keys() <= shared, after.keys() - before.keys()
    for name in ("etc/passwd", "etc/group"):
        assert after[name] == before[name], after[name]


def test_cargo_deb_makes_the_package(tmp_path, files):
    path = f"{os.environ['PATH']}:{sys.prefix}/bin"
    if not shutil.which("cargo-deb", path=path) or not shutil.which("dpkg-deb"):
        pytest.skip("it needs cargo-deb (cargo install cargo-deb) and dpkg-deb; its list of files is checked without")
    # A copy of the sources, where the program is in the place of a release.
    copy = tmp_path / "copy"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    (copy / "target/deb/man").mkdir(parents=True)
    make(copy / "target/deb")
    (copy / "target/release").mkdir()
    strip = shutil.which("strip")
    for program in PROGRAMS:
        source, target = BINARY.with_name(program), copy / "target/release" / program
        subprocess.run([strip, "-o", target, source] if strip else ["cp", source, target], check=True)
    env = {**os.environ, "PATH": path, "CARGO_TARGET_DIR": str(copy / "target")}
    command = ["cargo", "deb", "-p", "encke", "--no-build", "--no-strip", "--fast"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, env=env, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    (package,) = (copy / "target" / "debian").glob("encke_*.deb")
    table = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True).stdout
    packed = {line.split()[5].removeprefix("./") for line in table.splitlines() if not line.startswith("d")}
    # It compresses manual pages and the change log.
    packed = {name.removesuffix(".gz") for name in packed}
    assert {pathlib.PurePath(name).as_posix() for name in files} <= packed, files.keys() - packed
