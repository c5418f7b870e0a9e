"""The Bytewax side of the grouped workload, in a process of its own: `bytewax_side.py COUNT DIRECTORY` prints seconds.

Its source hands out slices of a list, so that Bytewax reads as cheaply as we do; its own `TestingSource` looks at
each item.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import time
from datetime import timedelta
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSink, run_main

from benchmarks.throughput import added, key_of, keyed

BATCH = 1000


class ListPartition(StatefulSourcePartition[Any, int]):
    """Reads a list in slices from where the recovery store says."""

    def __init__(self, events: list[Any], at: int) -> None:
        self.events = events
        self.at = at

    def next_batch(self) -> list[Any]:
        batch = self.events[self.at : self.at + BATCH]
        if not batch:
            raise StopIteration
        self.at += len(batch)
        return batch

    def snapshot(self) -> int:
        return self.at


class ListInput(FixedPartitionedSource[Any, int]):
    """A list as a source with one partition."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def list_parts(self) -> list[str]:
        return ["0"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> ListPartition:
        return ListPartition(self.events, resume_state or 0)


def step(total: int | None, event: tuple[str, int]) -> tuple[int, int]:
    """Scan, as Bytewax wants it: state and output."""
    total = added(0 if total is None else total, event)
    return total, total


def main(count: int, directory: Path) -> None:
    """Run the flow once and print how long it took."""
    directory.mkdir()
    init_db_dir(directory, 1)
    out: list[Any] = []
    events = keyed(count)
    flow = Dataflow("group_by")
    stream = op.key_on("key", op.input("in", flow, ListInput(events)), key_of)
    op.output("out", op.stateful_map("scan", stream, step), TestingSink(out))
    began = time.perf_counter()
    run_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(directory))
    took = time.perf_counter() - began
    if len(out) != count:
        raise SystemExit(f"{len(out)} outputs of {count} events")
    print(took)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
