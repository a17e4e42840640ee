"""`python -m faults`: runs faults, prints their figures, and writes a report."""

import argparse
import os
import pathlib
import sys
import traceback

from . import descriptors, endings, heads, memory, peers, readers, stops  # noqa: F401 (they register faults)
from .fault import FAULTS, Outcome, markdown, run


def main():
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full size of each fault")
    parser.add_argument("--report", type=pathlib.Path, default=pathlib.Path("faults.md"))
    parser.add_argument("names", nargs="*", metavar="FAULT", help=f"all, or some of {', '.join(FAULTS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(FAULTS):
        parser.error(f"no fault is called {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    if os.geteuid() != 0:
        parser.error("network namespaces, control groups and limits need root: run it as root")
    outcomes = []
    for name in arguments.names or FAULTS:
        try:
            outcome = run(name, arguments.scale)
        except Exception as error:  # The others are run all the same.
            traceback.print_exc()
            outcome = Outcome(name, misses=[f"it broke off: {error!r}"[:300]])
        outcomes.append(outcome)
        print(f"{name}: {'; '.join(outcome.figures)}: {'pass' if outcome.passed else 'MISS'}", flush=True)
        for miss in outcome.misses:
            print(f"    {miss}", flush=True)
        arguments.report.parent.mkdir(parents=True, exist_ok=True)
        arguments.report.write_text(markdown(outcomes, arguments.scale))
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
