"""What a fault is, and what came of one."""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import platform
import subprocess
import threading

FAULTS = {}


@dataclasses.dataclass
class Outcome:
    """Figures of one fault. `misses` says which limits were not kept; there are none if it passed."""

    name: str
    figures: list = dataclasses.field(default_factory=list)
    misses: list = dataclasses.field(default_factory=list)

    def figure(self, what, value, limit=None, unit=""):
        """Notes a figure, and a miss if it is above its limit."""
        shown = f"{value:,.3g}" if isinstance(value, float) else f"{value:,}"
        text = f"{what}: {shown}{unit}"
        if limit is not None:
            text += f" (limit {limit:,}{unit})"
            if value > limit:
                self.misses.append(text)
        self.figures.append(text)

    def require(self, holds, what):
        """Notes a miss unless the condition holds."""
        if not holds:
            self.misses.append(what)

    @property
    def passed(self):
        return not self.misses


def fault(size):
    """Registers a fault: a function of an `Outcome` and a size. `size` is the full one."""

    def register(function):
        FAULTS[function.__name__] = (function, size)
        return function

    return register


@contextlib.contextmanager
def beside(work):
    """Runs `work(going)` in a thread until the block ends and `going()` says no. What it raises fails the block. Yields
    a function that ends it earlier."""
    is_over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        working = threads.submit(work, lambda: not is_over.is_set())

        def end():
            is_over.set()
            working.result()

        try:
            yield end
        finally:
            is_over.set()
        end()


def run(name, scale=1.0, **options):
    """Runs a fault at a part of its full size."""
    function, size = FAULTS[name]
    outcome = Outcome(name)
    function(outcome, max(1, round(size * scale)), **options)
    return outcome


def machine():
    """The machine in a few words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{os.cpu_count()} cores, {memory} GiB, Linux {platform.release()}"


def commit():
    root = pathlib.Path(__file__).resolve().parents[3]
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def markdown(outcomes, scale):
    """A report: a row for each fault."""
    lines = [
        "# Faults",
        "",
        f"Machine: {machine()}; commit {commit()}; scale {scale:g}.",
        "",
        "| fault | figures | result |",
        "|---|---|---|",
    ]
    for outcome in outcomes:
        result = "pass" if outcome.passed else "MISS: " + "; ".join(outcome.misses)
        lines.append(f"| `{outcome.name}` | {'; '.join(outcome.figures)} | {result} |")
    return "\n".join(lines) + "\n"
