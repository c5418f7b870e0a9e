"""An app with a query that fails, under whatever interpreter: ``mended_process.py STORE COUNT END``.

A test writes copies of this file in which one thing is changed. It writes what became of the query as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator

BELOW = 5


class Division:
    """Divides by a number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def of(self, n: int) -> float:
        return n / self.number


def less(n: int) -> int:
    return n - BELOW


def shared(n: int) -> float:
    return Division(less(n)).of(1)


def queries() -> dict[str, Any]:
    n: Any = rx.source("n")
    return {
        "bad": n.map(lambda x: f"{shared(x):.3f}" if x != 100 else [y + 1 for y in [x]]),
        "reads": rx.source("bad").map(lambda text: float(text)),
        "taken": n.map(lambda x: x + 7).take(3),
    }


def main(store: str, count: str, end: str) -> None:
    evaluator = QueryEvaluator(SqliteStore(store), checkpoint_interval_s=1e9, clock=lambda: 1000.0)
    evaluator.source("n", ListSource(list(range(int(count))), follow=True))
    for name, query in queries().items():
        evaluator.create(name, query)
    evaluator.start()
    evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= int(count))
    said = {
        name: [
            evaluator.query(name).status,
            evaluator.query(name).emitted,
            str(evaluator.statistics().reports.get(name)),
        ]
        for name in evaluator.queries()
    }
    said["incidents"] = [str(each) for each in evaluator.incidents.open()]
    sys.stdout.write(json.dumps(said))
    sys.stdout.flush()
    if end == "kill":
        os._exit(9)
    evaluator.checkpoint()
    evaluator.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
