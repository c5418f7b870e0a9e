"""A store in memory, for tests and for runs that need not survive their process.

It seals, verifies and refuses exactly as a durable store does; only the rows are in dictionaries. `MemoryStore.crash`
and `MemoryStore.reopen` play the death of the process: what was committed is there again, the dead store can write
nothing more.
"""

from __future__ import annotations

import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from checkpoint.format.envelope import SEAL_BYTES, KeyRing
from checkpoint.sealed_log.generations import Seals
from checkpoint.sealed_log.journal import ChainedJournal
from checkpoint.sealed_log.log import LogBook, Row
from checkpoint.sealed_log.store import SealedStore, Write
from checkpoint.store import Segment
from reliable_rx.errors import StoreUnavailable
from reliable_rx.failpoints import probe

_WHERE = "memory store"


@dataclass(slots=True)
class _Rows:
    """What is committed: shared by all stores opened on it, one after the other. Tests may damage it."""

    owner: str
    generations: dict[int, tuple[int, bytes, Sequence[bytes]]] = field(default_factory=dict)
    """(base, manifest, chunks) by generation."""
    outputs: dict[str, list[Segment]] = field(default_factory=dict)
    journal: list[Segment] = field(default_factory=list)
    journal_base: tuple[int, bytes] | None = None
    logs: dict[str, list[Segment]] = field(default_factory=dict)
    log_bases: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    positions: dict[str, dict[str, tuple[int, bytes]]] = field(default_factory=dict)
    epoch: int = 0
    """Number of openings: only the newest may write."""
    lock: threading.RLock = field(default_factory=threading.RLock)


class _Writer:
    """The right to write, which ends when the store is closed or opened anew."""

    def __init__(self, rows: _Rows) -> None:
        self.rows = rows
        rows.epoch += 1
        self._epoch: int | None = rows.epoch

    def end(self) -> None:
        self._epoch = None

    def check(self) -> None:
        if self._epoch != self.rows.epoch:
            raise StoreUnavailable(f"{_WHERE}: this store is closed; open it again")


def _from(rows: Sequence[Segment], start: int, limit: int) -> list[Segment]:
    """Return rows from the one with the greatest first id not above *start* on."""
    at = max(0, bisect_right(rows, start, key=_first) - 1)
    return list(rows[at : at + limit])


def _first(row: Segment) -> int:
    return row[0]


def _with_seal(row: Segment) -> Segment:
    return row[0], row[1], row[2][-SEAL_BYTES:]


def _append(rows: list[Segment], new: Segment) -> None:
    """Add *new* in place of what begins at or after it."""
    while rows and rows[-1][0] >= new[0]:
        rows.pop()
    rows.append(new)


class MemoryJournal(ChainedJournal):
    """A journal in a list."""

    def __init__(self, writer: _Writer, keys: KeyRing) -> None:
        super().__init__(keys=keys, owner=writer.rows.owner, where=f"{_WHERE}, journal")
        self._writer, self._stored = writer, writer.rows
        self.load()

    def _rows(self, first_min: int, limit: int) -> Sequence[Segment]:
        return [row for row in _from(self._stored.journal, first_min, limit + 1) if row[0] >= first_min][:limit]

    def _newest(self, first_max: int, limit: int) -> Sequence[Segment]:
        rows = self._stored.journal
        end = bisect_right(rows, first_max, key=_first)
        return [_with_seal(row) for row in rows[max(0, end - limit) : end][::-1]]

    def _oldest(self, behind: int, limit: int) -> Sequence[Segment]:
        return [_with_seal(row) for row in self._rows(behind + 1, limit)]

    def _base(self) -> tuple[int, bytes] | None:
        return self._stored.journal_base

    def _insert(self, first: int, count: int, blob: bytes) -> None:
        self._writer.check()
        _append(self._stored.journal, (first, count, blob))

    def _drop(self, first_max: int, turn: int, base: bytes, records: int) -> None:
        self._writer.check()
        end = bisect_right(self._stored.journal, first_max, key=_first)
        self._check_dropped(records, end)
        del self._stored.journal[:end]
        self._stored.journal_base = (turn, base)


class _MemoryLogRows:
    def __init__(self, writer: _Writer) -> None:
        self._writer, self._stored = writer, writer.rows

    def insert(self, rows: Sequence[Row]) -> None:
        self._writer.check()
        with self._stored.lock:
            for name, first, count, blob in rows:
                _append(self._stored.logs.setdefault(name, []), (first, count, blob))

    def rows(self, name: str, start: int, limit: int) -> Sequence[Segment]:
        with self._stored.lock:
            return _from(self._stored.logs.get(name, []), start, limit)

    def end(self, name: str) -> int | None:
        rows = self._stored.logs.get(name)
        return rows[-1][0] + rows[-1][1] if rows else None

    def base(self, name: str) -> tuple[int, bytes] | None:
        return self._stored.log_bases.get(name)

    def trim(self, name: str, first: int, base: bytes) -> None:
        self._writer.check()
        with self._stored.lock:
            rows = self._stored.logs.get(name, [])
            self._stored.logs[name] = [row for row in rows if row[0] + row[1] > first]
            self._stored.log_bases[name] = (first, base)


class MemoryStore(SealedStore):
    """Keep everything in memory, as durable as this object.

    >>> store = MemoryStore()
    >>> store.journal.append(1, 1, b"a turn")
    >>> [payload for _, _, payload in store.reopen().journal.read(0)]
    [b'a turn']
    """

    def __init__(self, *, keys: KeyRing | None = None, retain: int = 3, clock: Callable[[], float] = time.time) -> None:
        self._open(_Rows(secrets.token_hex(8)), keys or KeyRing(secrets.token_bytes(32)), retain, clock)

    def _open(self, rows: _Rows, keys: KeyRing, retain: int, clock: Callable[[], float]) -> None:
        self._writer, self.rows = _Writer(rows), rows
        logs = LogBook(_MemoryLogRows(self._writer), keys=keys, owner=rows.owner, where=_WHERE)
        seals = Seals(keys, rows.owner, _WHERE)
        super().__init__(seals, MemoryJournal(self._writer, keys), logs, retain=retain, clock=clock)

    def reopen(self, *, keys: KeyRing | None = None) -> MemoryStore:
        """Return a new store on what was committed here; this one is dead from now on."""
        store = MemoryStore.__new__(MemoryStore)
        store._open(self.rows, keys or self.keys, self._retain, self._clock)
        return store

    def check_owned(self) -> None:
        self._writer.check()

    def crash(self) -> None:
        """Die: what was committed stays for `reopen`, nothing more can be written here."""
        self._writer.end()

    close = crash

    def _snapshot(self) -> AbstractContextManager[object]:
        return self.rows.lock

    def _manifests(self) -> Sequence[tuple[int, bytes]]:
        with self.rows.lock:
            return [(number, blob) for number, (_, blob, _) in sorted(self.rows.generations.items())]

    def _chunks(self, generation: int) -> Sequence[bytes]:
        return self.rows.generations[generation][2]

    def _bases(self) -> Sequence[tuple[int, int]]:
        return [(number, base) for number, (base, _, _) in self.rows.generations.items()]

    def _write(self, write: Write) -> None:
        self._writer.check()
        probe("checkpoint.mid_commit")
        with self.rows.lock:
            self._write_generation(write)
            for stream, first, count, blob in write.segments:
                _append(self.rows.outputs.setdefault(stream, []), (first, count, blob))
            for stream, kept in write.kept_from:
                rows = self.rows.outputs.get(stream, [])
                left = [row for row in rows if row[0] + row[1] > kept]
                if left:
                    self.rows.outputs[stream] = left
                else:
                    self.rows.outputs.pop(stream, None)

    def _write_generation(self, write: Write) -> None:
        stored, manifest = self.rows.generations, write.sealed.manifest
        for number in [each for each in stored if not write.drop_below <= each < write.drop_from]:
            del stored[number]
        stored[manifest.generation] = manifest.base, write.sealed.blob, write.sealed.chunks

    def _stream_names(self) -> list[str]:
        return sorted(stream for stream, rows in self.rows.outputs.items() if rows)

    def _stream_bounds(self, stream: str) -> tuple[int, int] | None:
        rows = self.rows.outputs.get(stream)
        return (rows[0][0], rows[-1][0] + rows[-1][1]) if rows else None

    def _stream_bytes(self, stream: str) -> int:
        with self.rows.lock:
            return sum(len(blob) for _, _, blob in self.rows.outputs.get(stream, ()))

    def _segments(self, stream: str, start: int, limit: int) -> Sequence[Segment]:
        with self.rows.lock:
            return _from(self.rows.outputs.get(stream, []), start, limit)

    def _positions(self, stream: str) -> Sequence[tuple[str, int, bytes]]:
        return [(subscriber, *stored) for subscriber, stored in sorted(self.rows.positions.get(stream, {}).items())]

    def _subscribed(self) -> list[str]:
        return sorted(stream for stream, subscribers in self.rows.positions.items() if subscribers)

    def _set_position(self, stream: str, subscriber: str, n: int, blob: bytes | None) -> None:
        self._writer.check()
        subscribers = self.rows.positions.setdefault(stream, {})
        if blob is None:
            subscribers.pop(subscriber, None)
        else:
            subscribers[subscriber] = n, blob
