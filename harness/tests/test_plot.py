"""`encke-lab plot`: pictures that open, and refusals that help."""

import json
import struct

import pytest

from support.node import Browser
from support.program import encke

TITLES = (
    "time,elapsed_seconds,pid,resident_bytes,cpu_user_seconds,cpu_system_seconds,"
    "established_connections,slab_bytes"
)


def recording(path, scale):
    rows = [TITLES]
    for second in range(0, 600, 10):
        connections = min(second, 300) * scale
        numbers = [second, 7, 8_000_000 + 45 * connections, second * 0.5, second * 0.2]
        numbers += [connections, 700_000_000 + 8360 * connections]
        rows.append("2026-11-22T00:00:00Z," + ",".join(map(str, numbers)))
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def two(tmp_path):
    return recording(tmp_path / "before.csv", 1000), recording(tmp_path / "after.csv", 2000)


def test_svg_in_a_browser(two, tmp_path):
    picture = tmp_path / "both.svg"
    said = encke("plot", *two, "-o", picture, "--title", "Before <&> after", "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["panels"] == 4
    browser = Browser()
    try:
        browser.goto(picture.as_uri())
        words = [word.strip() for word in browser.texts("text")]
        for word in ("Before <&> after", "before", "after", "bytes a connection (dashed)"):
            assert word in words, words
        assert any(word.endswith(", MB") for word in words)
        assert browser.evaluate("document.querySelectorAll('polyline').length") > 20
        assert browser.complaints() == []
    finally:
        browser.close()


def test_png(two, tmp_path):
    picture = tmp_path / "one.PNG"
    said = encke("plot", two[0], "-o", picture, "--panel", "memory", timeout=60)
    assert said.returncode == 0, said.stderr
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width == 2000 and height > 300


def test_refusals(two, tmp_path):
    def refused(*arguments):
        said = encke("plot", *arguments)
        assert said.returncode == 1, said
        return said.stderr

    foreign = tmp_path / "foreign.csv"
    foreign.write_text("a,b\n1,2\n")
    picture = tmp_path / "x.svg"
    assert "not a file that `encke-lab record` wrote" in refused(foreign, "-o", picture)
    foreign.write_text(TITLES + "\n")
    assert "no rows" in refused(foreign, "-o", picture)
    foreign.write_bytes(b"\xff\xfe\x00")
    assert "not a file that" in refused(foreign, "-o", picture)
    assert "network_sent_bytes" in refused(two[0], "-o", picture, "--panel", "network")
    assert ".svg or .png" in refused(two[0], "-o", tmp_path / "x.jpg")
    assert "cannot be written" in refused(two[0], "-o", tmp_path / "none" / "x.svg")
    assert not picture.exists()
    assert encke("plot", "-o", picture).returncode == 2
