"""A cluster of three nodes and three servers of NATS keeps its promises while it is broken: see `checker`."""

import os

from checker.laws import CLUSTER
from checker.report import markdown
from checker.run import run
from checker.service import Cluster

SEED = os.environ.get("CHECKER_SEED", "2026")


def test_a_cluster_keeps_the_laws_while_nodes_and_servers_are_killed_paused_and_cut_off():
    with Cluster() as service:
        outcome = run(service, CLUSTER, 45.0, SEED)
        report = markdown(outcome, "three nodes")
        assert not outcome.broken, report + str(outcome.logs)
        assert outcome.owed > 1000, report
        done = {fault.what for fault in outcome.log.faults}
        assert {"kill node", "kill server"} & done, report
