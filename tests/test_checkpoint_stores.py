"""All stores pass the public conformance suite, and the suite condemns stores that break a promise."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lanes import at_each_commit, every
from postgres_server import PostgresServer

from checkpoint import KeyRing, MemoryStore, Segment, SqliteReader, SqliteStore, Store, StoreReader
from checkpoint.postgres.connections import Connections
from checkpoint.postgres.owner import Presence
from checkpoint.postgres.schema import make
from checkpoint.postgres.store import PostgresReader, PostgresStore
from checkpoint.sealed_log.store import Write
from reliable_rx.errors import ReliableRxError, StoreUnavailable
from reliable_rx.testing.stores import STORE_CHECKS, check_store

OpenStore = Callable[[], Store]


def _memory(tmp_path: Path) -> OpenStore:
    first = MemoryStore()
    return first.reopen


def _sqlite(tmp_path: Path) -> OpenStore:
    return lambda: SqliteStore(tmp_path / "store")


def _postgres(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Stores over shared connections, so that opening one again and again connects once."""
    server: PostgresServer = request.getfixturevalue("postgres")
    connections, name = Connections(server.dsn, prepare=make), uuid.uuid4().hex
    presence = Presence(connections)
    yield lambda: PostgresStore(connections, name, presence=presence)
    presence.close()
    connections.close()


KINDS = ("memory", "sqlite", "postgres")
# Hundreds of commits, each of them a round trip.
LONG = ("postgres", "long_journal")
CASES = [
    pytest.param(kind, name, id=f"{kind}-{name}", marks=[pytest.mark.slow] if (kind, name) == LONG else [])
    for kind in KINDS
    for name in STORE_CHECKS
]


@pytest.fixture
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    if request.param == "postgres":
        yield from _postgres(request)
    else:
        yield {"memory": _memory, "sqlite": _sqlite}[request.param](tmp_path)


@pytest.mark.parametrize(("open_store", "name"), CASES, indirect=["open_store"])
def test_each_check_on_a_new_store(open_store: OpenStore, name: str) -> None:
    """Every store passes every check on its own."""
    STORE_CHECKS[name](open_store)


@pytest.mark.parametrize(
    "open_store", ["memory", at_each_commit("sqlite"), pytest.param("postgres", marks=pytest.mark.slow)], indirect=True
)
def test_all_checks_on_one_store(open_store: OpenStore) -> None:
    """The checks also pass one after the other on one store."""
    check_store(open_store)


def test_the_types_are_stores() -> None:
    """All stores and readers have the declared interface (held by mypy as well)."""
    stores: list[type[Store]] = [MemoryStore, SqliteStore, PostgresStore]
    readers: list[type[StoreReader]] = [SqliteReader, PostgresReader, *stores]
    assert all(hasattr(reader, "recover") for reader in readers)


class NoRetention(MemoryStore):
    """Never deletes a generation."""

    def _write_generation(self, write: Write) -> None:
        super()._write_generation(replace(write, drop_below=0))


class ForgetsBase(MemoryStore):
    """Deletes old generations by number, though kept differentials build on them."""

    def _write_generation(self, write: Write) -> None:
        super()._write_generation(replace(write, drop_below=write.sealed.manifest.generation - 2))


class OwnedForEver(MemoryStore):
    """Says that it is owned after it was closed."""

    def check_owned(self) -> None: ...


class HalfCommit(MemoryStore):
    """Writes the outputs although the transaction fails."""

    def _write(self, write: Write) -> None:
        for stream, first, count, blob in write.segments:
            self.rows.outputs.setdefault(stream, []).append((first, count, blob))
        super()._write(write)


class KeepsSuperseded(MemoryStore):
    """Leaves the segments in place that a new one repeats."""

    def _write(self, write: Write) -> None:
        before = {stream: list(rows) for stream, rows in self.rows.outputs.items()}
        super()._write(write)
        for stream, rows in before.items():
            now = self.rows.outputs[stream]
            self.rows.outputs[stream] = sorted({row[0]: row for row in [*rows, *now]}.values())


class TrimsOneTooMany(MemoryStore):
    """Forgets the segment that holds the first id to keep."""

    def _write(self, write: Write) -> None:
        super()._write(replace(write, kept_from=[(stream, kept + 1) for stream, kept in write.kept_from]))


class UnsortedChunks(MemoryStore):
    """Gives a generation's chunks in another order than they came."""

    def _chunks(self, generation: int) -> Sequence[bytes]:
        return super()._chunks(generation)[::-1]


class ShortPages(MemoryStore):
    """Fetches from the wrong segment when a read starts in the midst of one."""

    def _segments(self, stream: str, start: int, limit: int) -> Sequence[Segment]:
        return [row for row in super()._segments(stream, start, limit + 1) if row[0] >= start][:limit]


class GoesBack(MemoryStore):
    """Lets a subscriber take back what he acknowledged."""

    def acknowledge(self, stream: str, subscriber: str, n: int) -> None:
        self.release(stream, subscriber)
        super().acknowledge(stream, subscriber, n)


class Forgetful(MemoryStore):
    """Loses the subscribers when it is reopened."""

    def reopen(self, *, keys: KeyRing | None = None) -> MemoryStore:
        self.rows.positions.clear()
        return super().reopen(keys=keys)


class ReusesIds(MemoryStore):
    """Begins a log again at 0 once everything in it was trimmed and the store is reopened."""

    def reopen(self, *, keys: KeyRing | None = None) -> MemoryStore:
        self.rows.log_bases.clear()
        return super().reopen(keys=keys)


class NoBase(MemoryStore):
    """Forgets where an emptied journal ended."""

    def reopen(self, *, keys: KeyRing | None = None) -> MemoryStore:
        self.rows.journal_base = None
        return super().reopen(keys=keys)


class DeniesAtItsEnd(MemoryStore):
    """Says of what is pushed while it closes that it is not in, though it is."""

    is_closing = is_pushed = False

    def log(self, name: str) -> Any:
        log = super().log(name)
        append = log.append

        def denied(values: Sequence[bytes]) -> int:
            first = append(values)
            if self.is_closing:
                self.denied.set()
                raise StoreUnavailable("it is closing")
            return first

        self.denied, self.is_pushed = threading.Event(), name == "closing"
        log.append = denied  # type: ignore[method-assign,assignment]
        return log

    def close(self) -> None:
        self.is_closing = True
        if self.is_pushed and threading.active_count() > 1:
            self.denied.wait(5.0)
        self.crash()


PLANTED = [
    DeniesAtItsEnd,
    NoRetention,
    ForgetsBase,
    OwnedForEver,
    HalfCommit,
    KeepsSuperseded,
    TrimsOneTooMany,
    UnsortedChunks,
    ShortPages,
    GoesBack,
    Forgetful,
    ReusesIds,
    NoBase,
]


@pytest.mark.parametrize("kind", every(3, PLANTED, commits=1))
def test_a_store_that_breaks_a_promise_is_condemned(kind: type[MemoryStore]) -> None:
    """Each planted bug is found by the suite."""
    stores = [kind()]

    def open_store() -> Store:
        # A memory store reopens as a plain one: keep its kind.
        stores[0] = stores[0].reopen()
        stores[0].__class__ = kind
        return stores[0]

    with pytest.raises((AssertionError, ReliableRxError)):
        check_store(open_store)
