"""The process that runs Spark's driver and hosts the queries, and that is killed with its JVM.

``python -m spark_bridge.demo.worker FEED DATA STREAMS STORE LOGS``. As the worker of the plain demo it knows nothing of
being killed; it says how far it is, and which process is one with it.
"""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

from checkpoint import SqliteStore
from hosting.demo.job import AGAIN
from hosting.demo.worker import REPORT_S, status, tell
from hosting.evaluator.evaluator import QueryEvaluator
from spark_bridge.demo.hosted import READ, Driver, airport, checkpoint_of
from spark_bridge.demo.keyed import KEYED

BATCH_COUNTS = 500
"""How many events a batch of Spark's counts, where progress is one number."""


class Worker:
    """An evaluator with its companion, and what is to be said of both."""

    def __init__(self, evaluator: QueryEvaluator, feed: Path, logs: Path) -> None:
        self.evaluator, self.feed, self.logs = evaluator, feed, logs
        self.driver: Driver | None = None
        self.done = threading.Event()
        self.begun_at: int | None = None

    def start(self) -> Driver:
        """Start Spark."""
        self.driver = Driver(self.feed, self.logs)
        return self.driver

    def run(self) -> None:
        """Run until everything has ended. The weather waits for the logs to appear, and for what comes in them."""
        evaluator, companions = self.evaluator, self.evaluator.companions
        reporter = threading.Thread(target=self.report, daemon=True)
        evaluator.start()
        companions.start([self.start], started=evaluator.intake.list_soon)
        reporter.start()
        with closing(companions):
            evaluator.run(until=lambda: companions.error is not None)
            while not companions.ended:
                self.done.wait(REPORT_S)
        if companions.error is None:
            evaluator.checkpoint()
        self.done.set()
        reporter.join()
        if companions.error is not None:
            self.fail(companions.error)
        tell(self.status())

    def report(self) -> None:
        """Say now and then how far it is."""
        while not self.done.wait(5 * REPORT_S):
            if self.driver is not None:
                tell(self.status())

    def status(self) -> dict[str, Any]:
        """Describe progress: events that the evaluator has taken, and batches that Spark has finished."""
        told = status(self.evaluator, done=self.done.is_set())
        batches = {name: batches_done(self.logs, name) for name in (*READ, *(each.name for each in KEYED))}
        position = told["position"] + sum(batches.values()) * BATCH_COUNTS
        self.begun_at = position if self.begun_at is None else self.begun_at
        return told | {
            "position": position,
            "taken": position - self.begun_at,
            "hosted": told["position"],
            "batches": batches,
            "one_with": [] if self.driver is None else [self.driver.jvm],
        }

    def fail(self, error: Exception) -> NoReturn:
        """Say what Spark has failed with, and end so as to be started again: what does not pass fails again."""
        tell(self.status() | {"done": False, "failed": str(error)})
        sys.exit(AGAIN)


def batches_done(logs: Path, name: str) -> int:
    """Return how many batches a query of Spark's has finished, over all its lives."""
    commits = checkpoint_of(logs, name) / "commits"
    return max((int(each.name) + 1 for each in commits.glob("*") if each.name.isdigit()), default=0)


def main(feed: Path, data: Path, streams: Path, directory: Path, logs: Path) -> None:
    """Run the demo until the feed has ended."""
    logs.mkdir(parents=True, exist_ok=True)
    with SqliteStore(directory) as store, closing(airport(data, logs, streams).evaluator(store)) as evaluator:
        Worker(evaluator, feed, logs).run()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:6]))
