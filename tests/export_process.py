"""An export as a process that may be killed: ``python export_process.py DIRECTORY WORKERS``, faults armed from outside.

The workers of several make the source for themselves, and with it arm their faults.
"""

from __future__ import annotations

import sys

from hosting import GeneratorSource
from hosting.bulk import export
from reliable_rx.testing.faults import arm_from_environment

PARTITIONS, COUNT, PER_FILE = ("JFK", "L/GA", "É w"), 1_000, 37


def make() -> GeneratorSource:
    """Return the source; the same in every process."""
    arm_from_environment()
    return GeneratorSource(lambda i, random: {"n": i, "drawn": random.random()}, partitions=PARTITIONS, count=COUNT)


if __name__ == "__main__":
    export(make, sys.argv[1], workers=int(sys.argv[2]), events_per_file=PER_FILE)
