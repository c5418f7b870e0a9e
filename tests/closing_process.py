"""An evaluator is closed while the interpreter ends: ``closing_process.py STORE WHERE BEFORE``.

WHERE is ``del`` (by the last object of the program) or ``atexit`` (with a checkpoint), and BEFORE what it has done:
``started``, ``ran`` or ``checkpointed``.
"""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import TooLate


class Service:
    """What a program holds to its end."""

    def __init__(self, store: str, before: str) -> None:
        self.store = SqliteStore(store)
        self.evaluator = QueryEvaluator(self.store)
        self.evaluator.source("n", ListSource([1, 2, 3], follow=True))
        self.evaluator.create("q", rx.source("n"))
        self.evaluator.start()
        if before != "started":
            self.evaluator.run(until=lambda: self.evaluator.events_in == 3)
        if before == "checkpointed":
            self.evaluator.checkpoint()
        self.evaluator.step()

    def close(self) -> None:
        self.evaluator.close()
        self.store.close()
        sys.stdout.write("closed")


class Last(Service):
    """Is closed when it is collected, which is too late for a checkpoint."""

    def __del__(self) -> None:
        with suppress(TooLate):
            self.evaluator.checkpoint()
            sys.stdout.write("checkpointed, ")
        self.close()


if __name__ == "__main__":
    where, before = sys.argv[2:]
    if where == "del":
        service: Service = Last(sys.argv[1], before)
    else:
        service = Service(sys.argv[1], before)
        atexit.register(service.close)
        atexit.register(service.evaluator.checkpoint)
