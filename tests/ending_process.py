"""A program that ends without closing what it hosts, while a thread of its background holds every lock of the library.

``ending_process.py FOLDER HOST``: the interpreter kills daemon threads wherever they are, also within a lock; whoever
waits for it then, as a callback of the garbage collector might, waits for ever.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator
from hosting.subscriptions.manager import Deliveries
from reliable_rx.errors import ReliableRxError

LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)
OURS = ("reliable_rx", "hosting", "checkpoint")


async def answer(x: int) -> int:
    return x


def embedded(folder: Path, *, after: Callable[[QueryEvaluator], object] = lambda _: None) -> object:
    evaluator = QueryEvaluator(SqliteStore(folder / "store"))
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.create("q", rx.source("n").map_async(answer))
    evaluator.sink("q", JsonLinesSink(folder / "out.jsonl"))
    evaluator.run(until=lambda: evaluator.query("q").status == "completed")
    after(evaluator)
    return evaluator


def refused(folder: Path) -> object:
    """Return an evaluator whose start was refused: the collector finds it when the program ends."""
    store = SqliteStore(folder / "store")
    evaluator = QueryEvaluator(store)
    evaluator.create("q", rx.source("n").map(lambda x: x))
    try:
        evaluator.start()
    except ReliableRxError:
        return store
    raise RuntimeError("a query without its source was let in")


def pushing(folder: Path) -> object:
    evaluator = QueryEvaluator(SqliteStore(folder / "store"))
    evaluator.push("n").on_next(1)
    evaluator.create("q", rx.source("n").map(lambda x: x))
    evaluator.run(until=lambda: evaluator.statistics().turns > 0)
    return evaluator


def delivering(folder: Path) -> object:
    class Nobody:
        def deliver(self, records: Any, after: Any) -> None: ...

        def end(self, n: int, error: BaseException | None) -> None: ...

    deliveries = Deliveries(store=MemoryStore())
    subscription = deliveries.subscribe("letters", Nobody(), name="me", at=0)
    deliveries.offer("letters", ListSource(["a"]))
    deliveries.wait(lambda: subscription.status == "ended", timeout_s=30.0)
    return deliveries


HOSTS: dict[str, Callable[[Path], object]] = {
    "embedded": embedded,
    "closed": lambda folder: embedded(folder, after=QueryEvaluator.close),
    "refused": refused,
    "pushing": pushing,
    "delivering": delivering,
}


def locks() -> list[Any]:
    """Return every lock that an object or a module of the library holds."""
    holders = [each for each in gc.get_objects() if type(each).__module__.partition(".")[0] in OURS]
    holders += [module for name, module in sys.modules.items() if name.partition(".")[0] in OURS]
    found: dict[int, Any] = {}
    for each in holders:
        slots = [getattr(each, slot, None) for kind in type(each).__mro__ for slot in getattr(kind, "__slots__", ())]
        for value in [*getattr(each, "__dict__", {}).values(), *slots]:
            if isinstance(value, LOCKS):
                found[id(value)] = value
    return list(found.values())


def main(folder: str, host: str) -> None:
    kept = HOSTS[host](Path(folder))
    held = threading.Event()

    def hold() -> None:
        count = 0
        for lock in locks():
            count += lock.acquire(timeout=0.5)
        sys.stdout.write(f"{count}\n")
        sys.stdout.flush()
        held.set()
        threading.Event().wait()

    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    del kept
    gc.collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.exit(os.EX_OK)
