"""Faults on real sockets: what attackers, networks and operators do to a server, and what it does then.

`python -m faults --scale 0.01` from `harness/tests/`, or `make faults`, which runs them at full size. Each prints its figure."""
