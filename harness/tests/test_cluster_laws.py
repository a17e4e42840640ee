"""A cluster of three nodes and three servers of NATS keeps its promises while it is broken: see `checker`."""

import os
import random

from checker.laws import CLUSTER
from checker.report import markdown
from checker.run import run
from checker.service import Cluster
from support.nats import OLDEST

SEED = os.environ.get("CHECKER_SEED", "2026")

# A run without one of these proves little.
MAIN = ["kill_node", "kill_server", "cut_node", "cut_server"]


def test_a_cluster_keeps_the_laws_while_nodes_and_servers_are_killed_replaced_paused_and_cut_off():
    first = random.Random(f"{SEED} first").sample(MAIN, len(MAIN))
    with Cluster() as service:

        def missing(faults):
            """What has not happened yet."""
            wanted = {fault.replace("_", " ") for fault in [*MAIN, "replace_node"]}
            absent = wanted - {fault.what for fault in faults}
            # A node that was replaced long enough after the start finds a snapshot.
            is_copied = any("the graph starts from the snapshot" in node.log() for node in service.nodes)
            return absent | (set() if is_copied else {"a start from a snapshot"})

        # A node is replaced last: then there is a snapshot, mostly.
        outcome = run(
            service, CLUSTER, 60.0, SEED, first=[*first, "replace_node"], is_enough=lambda faults: not missing(faults)
        )  # fmt: skip
        report = markdown(outcome, "three nodes")
        assert not outcome.broken, report + str(outcome.logs)
        assert outcome.owed > 1000, report
        assert not missing(outcome.log.faults), report


def test_a_cluster_on_the_oldest_engine_keeps_the_laws_while_a_node_and_a_server_are_killed():
    with Cluster(binary=OLDEST) as service:
        done = {"kill node", "kill server"}
        outcome = run(
            service, CLUSTER, 10.0, SEED, first=["kill_server", "kill_node"],
            is_enough=lambda faults: done <= {fault.what for fault in faults},
        )  # fmt: skip
        report = markdown(outcome, "three nodes on the oldest engine")
        assert not outcome.broken, report + str(outcome.logs)
        assert outcome.owed > 100, report
        assert done <= {fault.what for fault in outcome.log.faults}, report
