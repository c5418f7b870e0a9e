"""Where the document of a group lies: one value under compare-and-set, and a notice that it has changed.

That is all that a group needs of a store, and every store that is worth trusting can do it: a row in SQLite or in
PostgreSQL (``UPDATE ... WHERE version = ?``, ``LISTEN``), a key in etcd, NATS or ZooKeeper. Rejected: locks with a time
limit (whoever was stopped while he held one does not know that it is over), a leader.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

Cancel = Callable[[], None]


class Registry(Protocol):
    """A store for one document. Methods may be called from any thread and raise `StoreUnavailable`."""

    def load(self) -> tuple[int, bytes | None]:
        """Return the newest version's number and document; 0 and None if there is none yet."""

    def swap(self, expected_version: int, document: bytes, *, notice: bool) -> bool:
        """Replace version *expected_version* durably and return True, or return False if it is not the newest.

        With *notice*, everybody who subscribed is called, in every process. If it raises, it may have been done.
        """

    def age_s(self) -> float | None:
        """Return how long ago the newest version was written, None if there is none yet."""

    def subscribe(self, wake: Callable[[], None]) -> Cancel:
        """Have *wake* called after each swap with a notice; several in a row may make one call. It must not block."""

    def close(self) -> None:
        """Let go of the store."""


class Subscribers:
    """Whom to call; for registries to keep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakes: dict[object, Callable[[], None]] = {}

    def add(self, wake: Callable[[], None]) -> Cancel:
        """Call *wake* from now on, until the function that this returns is called."""
        key = object()
        with self._lock:
            self._wakes[key] = wake
        return lambda: self._remove(key)

    def _remove(self, key: object) -> None:
        with self._lock:
            self._wakes.pop(key, None)

    def call(self) -> None:
        """Call them all."""
        with self._lock:
            wakes = list(self._wakes.values())
        for wake in wakes:
            wake()


class MemoryRegistry:
    """A registry for the threads of one process.

    >>> registry = MemoryRegistry()
    >>> registry.swap(0, b"first", notice=True), registry.swap(0, b"late", notice=True), registry.load()
    (True, False, (1, b'first'))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._document: bytes | None = None
        self._written = 0.0
        self._subscribers = Subscribers()

    def load(self) -> tuple[int, bytes | None]:
        with self._lock:
            return self._version, self._document

    def swap(self, expected_version: int, document: bytes, *, notice: bool) -> bool:
        with self._lock:
            if self._version != expected_version:
                return False
            self._version, self._document, self._written = expected_version + 1, document, time.monotonic()
        if notice:
            self._subscribers.call()
        return True

    def age_s(self) -> float | None:
        with self._lock:
            return time.monotonic() - self._written if self._version else None

    def subscribe(self, wake: Callable[[], None]) -> Cancel:
        return self._subscribers.add(wake)

    def close(self) -> None:
        """Nothing to let go of."""
