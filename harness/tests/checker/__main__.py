"""`python -m checker`: breaks a service for as long as one likes, and writes a report. `make chaos` runs it for an hour."""

import argparse
import pathlib
import sys
import time

from support.nats import NEWEST, OLDEST

from .laws import CLUSTER, SINGLE
from .report import markdown, summary
from .run import run
from .service import Cluster, Single

# A run is checked as a whole, in memory.
ROUND_SECONDS = 180.0


def main():
    parser = argparse.ArgumentParser(prog="checker", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--single", action="store_true", help="one node with its history on disk, in place of a cluster")
    parser.add_argument("--oldest", action="store_true", help="the oldest release of the engine")
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--report", type=pathlib.Path, default=pathlib.Path("chaos"), help="a directory for what was found")
    arguments = parser.parse_args()
    arguments.report.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * arguments.minutes
    service = Single() if arguments.single else Cluster(binary=OLDEST if arguments.oldest else NEWEST)
    outcomes = []
    with service:
        while (left := deadline - time.monotonic()) > 0 or not outcomes:
            seed = f"{arguments.seed}-{len(outcomes)}"
            outcome = run(service, SINGLE if arguments.single else CLUSTER, min(ROUND_SECONDS, max(left, 10)), seed)
            outcomes.append(outcome)
            keep(arguments.report, len(outcomes), outcome)
            print(summary(len(outcomes), outcome), flush=True)
            if outcome.broken:
                break
    return 1 if any(outcome.broken for outcome in outcomes) else 0


def keep(directory, number, outcome):
    """The report of a round, and of one that went wrong all that was seen."""
    name = f"round-{number:03}"
    (directory / f"{name}.md").write_text(markdown(outcome, f"Round {number}"))
    if outcome.broken:
        outcome.log.save(directory / f"{name}.jsonl")
        for program, text in outcome.logs.items():
            (directory / f"{name}-{program}.log").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
