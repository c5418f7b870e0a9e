"""A process whose query asks a service in another process, once per event, until its source ends or it is killed.

It is given the folder of its store and the port of the service on this machine. The service answers every question
with a serial number, so that a question asked twice is seen.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import GeneratorSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.testing.faults import arm_from_environment

EVENTS = 200
CONCURRENCY = 4


async def ask(n: int) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    writer.write(f"{n}\n".encode())
    answer = await reader.readline()
    writer.close()
    return n, int(answer)


def main(folder: Path) -> None:
    arm_from_environment()
    with SqliteStore(folder / "store") as store:
        evaluator = QueryEvaluator(store, checkpoint_interval_s=0.05, batch_events_max=7, full_every=4)
        evaluator.source("n", GeneratorSource(lambda i, random: i, count=EVENTS))
        query = rx.source("n").pipe(ops.map_async(ask, concurrency=CONCURRENCY), ops.scan(growing, ()))
        evaluator.create("q", query)
        with evaluator:
            evaluator.run()


def growing(before: tuple[int, ...], answer: tuple[int, int]) -> tuple[int, ...]:
    """Return the answer with how many there have been: state behind the calls, which must not slip either."""
    return (*answer, (before[2] if before else 0) + 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
