"""An offset store in memory, for tests and for runs that need not survive their process.

It seals, verifies, replays and refuses exactly as the durable one does; only the rows are in a list.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from checkpoint.format.envelope import KeyRing
from checkpoint.offsets.log import COMPACT_ROWS, ENTRIES_MAX, OffsetLog, Row
from checkpoint.offsets.logged import LoggedOffsets
from checkpoint.offsets.store import LeaseAuthority
from reliable_rx.errors import StoreUnavailable


@dataclass(slots=True)
class _Stored:
    """What is committed: shared by all stores on it. Tests may damage it."""

    owner: str
    keys: KeyRing
    rows: list[Row] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)


class _Transaction:
    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def after(self, number: int, limit: int) -> Sequence[Row]:
        first = self.rows[0][0] if self.rows else 0  # numbers are consecutive
        start = max(0, number + 1 - first)
        return self.rows[start : start + limit]

    def append(self, row: Row) -> None:
        self.rows.append(row)

    def drop_below(self, number: int) -> None:
        self.rows = [row for row in self.rows if row[0] >= number]


class _MemoryRows:
    def __init__(self, stored: _Stored) -> None:
        self._stored, self.dead = stored, False

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._stored.lock:
            if self.dead:
                raise StoreUnavailable("memory offsets: this store is closed; open it again")
            transaction = _Transaction(list(self._stored.rows))
            yield transaction
            self._stored.rows = transaction.rows

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        yield _Transaction(self._stored.rows)  # a writer puts another list in its place


class MemoryOffsets(LoggedOffsets):
    """Keep positions in memory, as durable as this object. *leases* knows who holds what.

    >>> store = MemoryOffsets(lambda group, partition: ("a", 1))
    >>> store.commit("flights", {("log", "0"): 12}, {("log", "0"): ("a", 1)})
    {('log', '0'): None}
    >>> store.fetch("flights")[("log", "0")].position
    12
    """

    def __init__(
        self,
        leases: LeaseAuthority,
        *,
        clock: Callable[[], float] = time.time,
        compact_rows: int = COMPACT_ROWS,
        entries_max: int = ENTRIES_MAX,
        load: bool = True,
    ) -> None:
        stored = _Stored(secrets.token_hex(8), KeyRing(secrets.token_bytes(32)))
        self._settings = leases, clock, compact_rows, entries_max
        self._open(stored, load=load)

    def _open(self, stored: _Stored, *, load: bool) -> None:
        leases, clock, compact_rows, entries_max = self._settings
        self.committed, self._rows = stored, _MemoryRows(stored)
        log = OffsetLog(
            self._rows, leases, keys=stored.keys, owner=stored.owner, where=f"memory offsets {stored.owner}",
            clock=clock, compact_rows=compact_rows, entries_max=entries_max,
        )  # fmt: skip
        super().__init__(log)
        if load:
            log.load()

    def beside(self, *, load: bool = True) -> MemoryOffsets:
        """Return another store on what is committed here, as a second process would open it."""
        store = MemoryOffsets.__new__(MemoryOffsets)
        store._settings = self._settings
        store._open(self.committed, load=load)
        return store

    def crash(self) -> None:
        """Die: what was committed stays for `beside`, nothing more can be written here."""
        self._rows.dead = True

    close = crash
