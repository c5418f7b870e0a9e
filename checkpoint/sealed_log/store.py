"""Everything about a store except where its rows are kept: sealing, verifying, falling back, retaining.

A store for another database is a subclass of `SealedStore` with a dozen short methods; it can get the SQL wrong, but
not the seals. `reliable_rx.testing.stores.check_store` says whether it got the SQL right.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Self

from checkpoint.failures import unavailable
from checkpoint.format.envelope import KeyRing
from checkpoint.sealed_log.generations import Chains, SealedGeneration, Seals, Tip, keep_from, seal_generation
from checkpoint.sealed_log.journal import ChainedJournal
from checkpoint.sealed_log.log import Log, LogBook
from checkpoint.store import Checkpoint, GenerationInfo, Recovered, Segment
from reliable_rx.errors import CheckpointRefused, PositionUnavailable, invariant
from reliable_rx.failpoints import probe
from reliable_rx.names import check_name

PAGE = 64
_END: Segment = (2**63, 0, b"")


@dataclass(frozen=True, slots=True)
class Write:
    """One checkpoint transaction, all thinking done: what to delete and what to insert.

    *drop_from*: generations from there on are replaced. *drop_below*: generations below are no longer needed.
    *segments* are ``(stream, first, count, blob)`` and replace what begins at or after them; *kept_from* are
    ``(stream, id)``.
    """

    sealed: SealedGeneration
    drop_from: int
    drop_below: int
    segments: Sequence[tuple[str, int, int, bytes]]
    kept_from: Sequence[tuple[str, int]]


class SealedReader(ABC):
    """The reading half of a store, over rows that a subclass fetches."""

    group: tuple[str, str] | None = None
    """Where the group lives of whose partition it is, and its name, as commands take them; None if it is of none."""

    def __init__(self, seals: Seals, journal: ChainedJournal) -> None:
        self._seals, self._journal = seals, journal

    @property
    def owner(self) -> str:
        return self._seals.owner

    @property
    def keys(self) -> KeyRing:
        return self._seals.keys

    @property
    def journal(self) -> ChainedJournal:
        return self._journal

    def recover(self, *, strict: bool = False) -> Recovered | None:
        found = self._newest(strict=strict)
        return None if found is None else found[0]

    def _newest(self, *, strict: bool) -> tuple[Recovered, Tip] | None:
        with unavailable(self._seals.where), self._snapshot():
            return Chains(self._seals, dict(self._manifests()), self._readable_chunks).newest(strict=strict)

    def _readable_chunks(self, generation: int) -> Sequence[bytes]:
        with unavailable(f"{self._seals.where}, chunks of generation {generation}"):
            return self._chunks(generation)

    def generations(self) -> list[GenerationInfo]:
        infos = []
        with unavailable(self._seals.where):
            stored = self._manifests()
        for number, blob in stored:
            try:
                infos.append(self._seals.manifest(number, blob).info())
            except CheckpointRefused:
                continue  # `recover` reports it; here it is simply not a generation one can count on
        return infos

    def streams(self) -> list[str]:
        with unavailable(self._seals.where):
            return self._stream_names()

    def bounds(self, stream: str) -> tuple[int, int] | None:
        with unavailable(self._seals.where):
            return self._stream_bounds(stream)

    def size(self, stream: str) -> int:
        with unavailable(self._seals.where):
            return self._stream_bytes(stream)

    def outputs(self, stream: str, start: int) -> Iterator[Segment]:
        expected: int | None = None
        for row, following in pairwise(chain(self._paged(stream, start), [_END])):
            first, count, _ = row
            if expected is not None and first != expected:
                raise self._gap(stream, expected, first)
            expected = min(first + max(count, 1), following[0])
            if expected > start:
                yield first, expected - first, self._opened(stream, row)

    def kept_outputs(self, stream: str) -> Iterator[tuple[int, int, bytes | None]]:
        for row, following in pairwise(chain(self._paged(stream, 0), [_END])):
            first, count, _ = row
            payload = None
            with suppress(CheckpointRefused):
                payload = self._opened(stream, row)
            yield first, min(first + max(count, 1), following[0]) - first, payload

    def _paged(self, stream: str, start: int) -> Iterator[Segment]:
        """Give stored rows in pages, so that nothing is locked while they are used."""
        rows, last = self._page(stream, start), -1
        while rows:
            yield from (row for row in rows if row[0] > last)
            before, last = last, rows[-1][0]
            if last <= before and [row[0] for row in rows] != [before]:  # a page begins with the last row before it
                what = f"behind id {before} there is id {last}: it has not what was written to it"
                raise self._seals.refuse(f"stream {stream!r}", f"{what}; restore a copy of the store")
            rows = self._page(stream, last) if len(rows) == PAGE else ()

    def _page(self, stream: str, start: int) -> Sequence[Segment]:
        with unavailable(self._seals.where):
            return self._segments(stream, start, PAGE)

    def _opened(self, stream: str, row: Segment) -> bytes:
        first, count, blob = row
        return self._seals.unseal(f"output {stream}", first, blob, f"stream {stream!r}, id {first}", count)

    def _gap(self, stream: str, expected: int, found: int) -> Exception:
        bounds = self.bounds(stream)
        if bounds is None or bounds[0] > expected:
            first, end = bounds or (found, found)
            message = f"stream {stream!r}: id {expected} has been trimmed meanwhile; start at {first} or later"
            return PositionUnavailable(message, wanted=expected, first=first, end=end)
        return self._seals.refuse(f"stream {stream!r}", f"ids {expected} to {found - 1} are missing")

    def acknowledged(self, stream: str) -> dict[str, int]:
        with unavailable(self._seals.where):
            rows = self._positions(stream)
        for subscriber, n, blob in rows:
            self._seals.unseal(
                position_kind(stream, subscriber), n + 1, blob, f"subscriber {subscriber!r} of {stream!r}"
            )
        return {subscriber: n for subscriber, n, _ in rows}

    def subscribed(self) -> list[str]:
        with unavailable(self._seals.where):
            return self._subscribed()

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[object]:
        """Let the reads inside see one state."""

    @abstractmethod
    def _manifests(self) -> Sequence[tuple[int, bytes]]:
        """Return ``(generation, blob)``, oldest first."""

    @abstractmethod
    def _chunks(self, generation: int) -> Sequence[bytes]: ...

    @abstractmethod
    def _stream_names(self) -> list[str]: ...

    @abstractmethod
    def _stream_bounds(self, stream: str) -> tuple[int, int] | None: ...
    @abstractmethod
    def _stream_bytes(self, stream: str) -> int: ...

    @abstractmethod
    def _segments(self, stream: str, start: int, limit: int) -> Sequence[Segment]:
        """Return rows from the one with the greatest first id not above *start*, or the first there is."""

    @abstractmethod
    def _positions(self, stream: str) -> Sequence[tuple[str, int, bytes]]:
        """Return ``(subscriber, n, blob)``."""

    @abstractmethod
    def _subscribed(self) -> list[str]:
        """Name the streams that have a position."""


class SealedStore(SealedReader):
    """A whole store, over rows that a subclass keeps. *bases* are the stored ``(generation, base)``."""

    def __init__(
        self, seals: Seals, journal: ChainedJournal, logs: LogBook, *, retain: int, clock: Callable[[], float]
    ) -> None:
        if retain < 1:
            raise ValueError(f"retain={retain}: a store keeps at least one generation")
        super().__init__(seals, journal)
        self._logs, self._retain, self._clock = logs, retain, clock
        self._commit_lock = threading.Lock()
        self._acknowledge_lock = threading.Lock()
        self._tip: Tip | None = None
        self._committed = False

    def recover(self, *, strict: bool = False) -> Recovered | None:
        found = self._newest(strict=strict)
        recovered, tip = found or (None, Tip())
        if not self._committed:
            # After the first commit the tip is what was committed, even should it not be readable any more.
            self._tip = tip
        return recovered

    def begin_anew(self) -> None:
        self._tip = Tip()

    def commit(
        self,
        checkpoint: Checkpoint,
        *,
        outputs: Mapping[str, Sequence[Segment]] = {},
        kept_from: Mapping[str, int] = {},
    ) -> GenerationInfo:
        with self._commit_lock:
            write = self._planned(checkpoint, outputs, kept_from)
            with unavailable(f"{self._seals.where}, generation {checkpoint.generation}"):
                probe("checkpoint.before_commit")
                self._write(write)
                probe("checkpoint.after_commit")
            self._tip, self._committed = write.sealed.tip, True
            return write.sealed.manifest.info()

    def _planned(
        self, checkpoint: Checkpoint, outputs: Mapping[str, Sequence[Segment]], kept_from: Mapping[str, int]
    ) -> Write:
        tip = self._known_tip()
        number = checkpoint.generation
        invariant(number > tip.generation, f"generation {number} comes after generation {tip.generation}")
        follows = checkpoint.kind == "full" or tip.generation > 0
        invariant(follows, f"differential generation {number} has a generation to build on")
        sealed = seal_generation(self._seals, checkpoint, tip, self._clock())
        with unavailable(self._seals.where):
            bases = [base for base in self._bases() if base[0] <= tip.generation]
        return Write(
            sealed,
            drop_from=tip.generation + 1,
            drop_below=keep_from([*bases, (number, sealed.manifest.base)], self._retain),
            segments=[self._segment(stream, *each) for stream, new in outputs.items() for each in new],
            kept_from=list(kept_from.items()),
        )

    def _known_tip(self) -> Tip:
        if self._tip is None:
            self.recover()
        return self._tip or Tip()

    def _segment(self, stream: str, first: int, count: int, payload: bytes) -> tuple[str, int, int, bytes]:
        return stream, first, count, self._seals.seal(f"output {stream}", first, payload, count)

    def log(self, name: str) -> Log:
        return self._logs.log(check_name("log", name))

    def acknowledge(self, stream: str, subscriber: str, n: int) -> None:
        stream, subscriber = check_name("stream", stream), check_name("subscriber", subscriber)
        with self._acknowledge_lock:
            if n > self.acknowledged(stream).get(subscriber, -2):
                blob = self._seals.seal(position_kind(stream, subscriber), n + 1, b"")
                with unavailable(self._seals.where):
                    self._set_position(stream, subscriber, n, blob)

    def release(self, stream: str, subscriber: str) -> None:
        with self._acknowledge_lock, unavailable(self._seals.where):
            self._set_position(stream, subscriber, -1, None)

    @abstractmethod
    def _bases(self) -> Sequence[tuple[int, int]]:
        """Return ``(generation, base)`` of what is stored."""

    @abstractmethod
    def _write(self, write: Write) -> None:
        """Do all of *write* durably or nothing of it, with ``probe("checkpoint.mid_commit")`` in its middle."""

    @abstractmethod
    def _set_position(self, stream: str, subscriber: str, n: int, blob: bytes | None) -> None:
        """Store a subscriber's position durably; without *blob*, delete it."""


def position_kind(stream: str, subscriber: str) -> str:
    # The length keeps ("a b", "c") and ("a", "b c") apart.
    return f"position {len(stream)} {stream} {subscriber}"
