"""What every store must do for pushed inputs, as checks of `reliable_rx.testing.stores`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from reliable_rx.errors import PositionUnavailable, StoreUnavailable
from reliable_rx.testing.claims import refuses, same
from reliable_rx.testing.faults import arm, disk_full

if TYPE_CHECKING:
    from checkpoint.sealed_log.log import Log
    from checkpoint.store import Store

CLOSINGS, CLOSED_BEHIND = 5, 10
"""So often a store is closed while threads push, each time behind so many pushes."""


def check_log(open_store: Callable[[], Store]) -> None:
    """Logged values have consecutive ids, are read from any id in any amount, and keep their ids when trimmed."""
    with open_store() as store:
        log = store.log("pushed")
        first = log.append([b"a", b"b", b"c"])
        same(log.append([b"d"]), first + 3, "the id after three values")
        same(log.append([]), first + 4, "the id of nothing")
        store.log("another").append([b"z"])
    with open_store() as store:
        log = store.log("pushed")
        same(log.end, first + 4, "the end after reopening")
        for start in range(5):
            for count_max in (1, 2, 9):
                wanted = [b"a", b"b", b"c", b"d"][start : start + count_max]
                same(log.read(first + start, count_max), (first + start, wanted), "what is read")
        log.trim(first)
        same((log.first, log.read(first + 1, 2)), (first + 1, (first + 1, [b"b", b"c"])), "what is left after trimming")
        with refuses(PositionUnavailable, "reading what was trimmed"):
            log.read(first, 1)
        with refuses(PositionUnavailable, "reading beyond the end"):
            log.read(first + 5, 1)
        log.trim(first + 100)
    with open_store() as store:
        log = store.log("pushed")
        same((log.first, log.end), (first + 4, first + 4), "first and end after trimming everything")
        same(log.append([b"e"]), first + 4, "the id after trimming everything")


def check_log_threads(open_store: Callable[[], Store]) -> None:
    """Threads that append at once get ids of their own, and every value is where its id says."""
    with open_store() as store:
        ids: dict[int, bytes] = {}

        def push(name: int) -> None:
            for number in range(20):
                value = b"%d/%d" % (name, number)
                ids[store.log("threads").append([value])] = value

        threads = [threading.Thread(target=push, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        same(len(ids), 80, "the number of different ids")
        first, values = store.log("threads").read(min(ids), 100)
        same(dict(enumerate(values, first)), ids, "the values by id")


def check_failed_push(open_store: Callable[[], Store]) -> None:
    """A push that failed is not there, its id goes to the next, also if it was durable after all."""
    with open_store() as store:
        log = store.log("failing")
        first = log.append([b"a"])
        for place in ("log.before_commit", "log.after_commit"):
            with arm(place, disk_full()), refuses(StoreUnavailable, f"a full disk at {place}"):
                log.append([b"lost", b"too"])
        same(log.append([b"b"]), first + 1, "the id after a failure")
    with open_store() as store:
        same(store.log("failing").read(first, 9), (first, [b"a", b"b"]), "what is logged")


def check_closed_while_pushing(open_store: Callable[[], Store]) -> None:
    """What is pushed while the store is closed is in if the push has returned, and is not in if it has raised."""
    for _ in range(CLOSINGS):
        pushed: dict[int, bytes] = {}
        many, is_closed = threading.Semaphore(0), threading.Event()
        with open_store() as store:
            log = store.log("closing")
            first = log.end
            args = [(log, b"%d" % name, pushed, many, is_closed) for name in range(2)]
            threads = [threading.Thread(target=_push_until_closed, args=each) for each in args]
            for thread in threads:
                thread.start()
            for _ in range(CLOSED_BEHIND):
                many.acquire()
        is_closed.set()
        for thread in threads:
            thread.join()
        with open_store() as store:
            log = store.log("closing")
            at, values = log.read(first, log.end - first)
            same(dict(enumerate(values, at)), pushed, "the values by id, whose pushes have returned")


def _push_until_closed(
    log: Log, name: bytes, pushed: dict[int, bytes], many: threading.Semaphore, is_closed: threading.Event
) -> None:
    """Push until the store refuses, or is closed; note what was accepted."""
    try:
        for number in itertools.count():
            if is_closed.is_set():
                return
            value = b"%s/%d" % (name, number)
            pushed[log.append([value])] = value
            many.release()
    except StoreUnavailable:
        pass
    finally:
        many.release(CLOSED_BEHIND)
