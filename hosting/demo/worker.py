"""The process that hosts the demo, and that is killed: `python -m hosting.demo.worker DATA STREAMS STORE`.

It knows nothing of being killed, and does nothing about it. All it does besides hosting is to say how far it is,
a JSON object a line, so that its parent can draw a bar and choose its moment.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from checkpoint import SqliteStore
from hosting.demo.airport import airport
from hosting.evaluator.evaluator import QueryEvaluator

REPORT_S = 0.02


def main(data: Path, streams: Path, directory: Path) -> None:
    """Host the demo until its sources end."""
    with SqliteStore(directory) as store, closing(airport(data, streams).evaluator(store)) as evaluator:
        evaluator.start()
        done = threading.Event()
        reporter = threading.Thread(target=report, args=(evaluator, done), daemon=True)
        reporter.start()
        evaluator.run()
        evaluator.checkpoint()
        done.set()
        reporter.join()
        tell(status(evaluator, done=True))


def report(evaluator: QueryEvaluator, done: threading.Event) -> None:
    """Say now and then how far *evaluator* is, until it is *done*."""
    while not done.wait(REPORT_S):
        tell(status(evaluator, done=False))


def status(evaluator: QueryEvaluator, *, done: bool) -> dict[str, Any]:
    """Describe progress: *position* counts over all runs, *taken* and *emitted* in this one, after the replay.

    It takes no lock: a thread that waits for the lock of a busy loop waits long.
    """
    recovery = evaluator.recovery
    return {
        "done": done,
        "position": sum(evaluator.intake.positions().values()),
        "taken": evaluator.events_in,
        "emitted": evaluator.streams.events_out,
        "time": evaluator.engine.clock,
        "replayed": 0 if recovery is None else recovery.replayed_events,
        "recovery_s": 0.0 if recovery is None else recovery.seconds,
    }


def tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
