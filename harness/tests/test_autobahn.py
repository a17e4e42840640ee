"""The WebSocket codec against the cases of the Autobahn test suite, run by kosoku."""

import json
import pathlib
import subprocess
import sys

import pytest

from support.program import BINARY
from support.wait import PATIENCE

ECHO = BINARY.parent / "examples" / "websocket_echo"

# 9: large messages, which take half a minute. 12 and 13: compression, which is not negotiated.
LEFT_OUT = ["9.*", "12.*", "13.*"]
CASES_MIN = 240


@pytest.fixture
def echo():
    """The address of the echo server over the codec."""
    assert ECHO.exists(), f"{ECHO} is not built: cargo build -p wire --example websocket_echo"
    with subprocess.Popen([ECHO, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as server:
        yield server.stdout.readline().strip()
        server.kill()


def test_no_case_fails(echo, tmp_path):
    excluded = [word for case in LEFT_OUT for word in ("-x", case)]
    program = pathlib.Path(sys.executable).with_name("kosoku")
    run = [sys.executable, program, echo, "-p", "4", "-o", str(tmp_path), *excluded]
    subprocess.run(run, capture_output=True, check=True, timeout=6 * PATIENCE)
    (cases,) = json.loads((tmp_path / "index.json").read_text()).values()
    assert len(cases) >= CASES_MIN
    verdicts = {"OK", "INFORMATIONAL"}
    for name, case in cases.items():
        assert case["behavior"] in verdicts, (name, case)
        assert case["behaviorClose"] in verdicts, (name, case)
