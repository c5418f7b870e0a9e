"""One evaluator at a time on a store: a second one in the same process, on the same object, is refused.

Stores keep other processes and other objects out by their own locks. Two evaluators on one object would write into one
journal, each as if it were alone. Who has been closed, or is gone, owns nothing.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from checkpoint.store import Store
from hosting.reports import hang_watch
from hosting.reports.incidents import Incidents
from hosting.reports.partition_store import check_lease
from reliable_rx.errors import StoreOwned


class Owner(hang_watch.Watched, Protocol):
    """An evaluator on its store."""

    store: Store
    incidents: Incidents


LOCK = threading.Lock()
OWNERS: weakref.WeakKeyDictionary[Store, weakref.ref[Owner]] = weakref.WeakKeyDictionary()


def own(evaluator: Owner) -> None:
    """Let *evaluator* be the one on its store. *Raises* `StoreOwned` if another one is, or if it is a group's."""
    check_lease(evaluator.store, is_placed=bool(evaluator.incidents.place))
    with LOCK:
        owner = OWNERS.get(evaluator.store)
        other = None if owner is None else owner()
        if other is not None and other is not evaluator:
            message = f"another evaluator of this process (pid {os.getpid()}) runs on this store"
            raise StoreOwned(f"{message}; close it first, or give this one a store of its own", owner=os.getpid())
        OWNERS[evaluator.store] = weakref.ref(evaluator)
    hang_watch.WATCH.add(evaluator)


@contextmanager
def watched(evaluator: Owner) -> Iterator[None]:
    """Work for *evaluator*, which has not started, and have it told if that does not return."""
    hang_watch.WATCH.add(evaluator)
    try:
        with evaluator.working:
            yield
    finally:
        hang_watch.WATCH.remove(evaluator)


def disown(evaluator: Owner) -> None:
    """Let others on the store of *evaluator*, which has been closed."""
    hang_watch.WATCH.remove(evaluator)
    with LOCK:
        owner = OWNERS.get(evaluator.store)
        if owner is not None and owner() is evaluator:
            del OWNERS[evaluator.store]
