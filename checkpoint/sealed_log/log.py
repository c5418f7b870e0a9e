"""Durable append logs: what a pushed input is written to before anyone says "accepted".

Application threads append while the evaluator reads, and share their fsyncs (`checkpoint.sealed_log.group_commit`).
Values of one append are one sealed row; ids are consecutive from 0 and never reused, also when everything has been
trimmed. Rejected: a row per value (eight times the cost of a batch).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, Protocol

from checkpoint import failures
from checkpoint.failures import unavailable
from checkpoint.format.codec import decode, encode
from checkpoint.format.envelope import KeyRing, seal, unseal
from checkpoint.ownership import OwnProcess
from checkpoint.sealed_log.group_commit import Asked, GroupCommit
from reliable_rx.errors import CheckpointRefused, PositionUnavailable, TooLate
from reliable_rx.failpoints import probe

FILL_MAX = 10_000
"""How many lost ids one row stands for."""


class Log(Protocol):
    """A durable, trimmable list of encoded values with consecutive ids from 0. Safe to use from many threads."""

    @property
    def first(self) -> int:
        """The oldest id that can be read."""
        ...

    @property
    def end(self) -> int:
        """The id the next value will get."""
        ...

    ended: bool
    """Whether the last value is in; whoever opens the log finds that out."""

    def append(self, values: Sequence[bytes], *, last: bool = False) -> int:
        """Make *values* durable before returning; return the id of the first. Nothing goes behind what is *last*.

        *Raises* `StoreUnavailable`, `TooLate` behind the last value.
        """
        ...

    def read(self, start: int, count_max: int) -> tuple[int, list[bytes]]:
        """Return *start* and at most *count_max* values from id *start* on, none at the end.

        *Raises* `PositionUnavailable` below `first` or beyond `end`, `CheckpointRefused` for a damaged or missing row.
        """
        ...

    def trim(self, upto: int) -> None:
        """Forget id *upto* and all before. *Raises* `StoreUnavailable`."""

    def lost(self, start: int, behind: int) -> list[tuple[int, int]]:
        """Return which ids from *start* up to *behind*, or to the end, are lost: the first, and the one behind."""
        ...

    def fill(self, start: int, behind: int, value: bytes) -> None:
        """Let *value* stand for each id from *start* up to *behind*, or to the end, that is lost: for a repair."""


Row = tuple[str, int, int, bytes]
"""Log name, first id, count, sealed values."""


class LogRows(Protocol):
    """Where the rows of all logs are kept."""

    def insert(self, rows: Sequence[Row]) -> None:
        """Write rows durably in one transaction; each replaces what begins at or after it in its log."""

    def rows(self, name: str, start: int, limit: int) -> Sequence[tuple[int, int, bytes]]:
        """Return the rows from the one that holds id *start* on."""
        ...

    def end(self, name: str) -> int | None:
        """Return the id behind the last row."""
        ...

    def base(self, name: str) -> tuple[int, bytes] | None:
        """Return the first id that was kept and its sealed form."""
        ...

    def trim(self, name: str, first: int, base: bytes) -> None:
        """Delete the rows wholly below id *first* and set the base, in one transaction."""


@dataclass(slots=True, eq=False)
class _Append(Asked):
    log: SealedLog
    values: Sequence[bytes]
    last: bool = False
    first: int = -1


class LogBook:
    """All logs of one store: they share a connection, and so a commit."""

    def __init__(
        self, rows: LogRows, *, keys: KeyRing, owner: str, where: str, repaired_at: Sequence[str] = ()
    ) -> None:
        self.rows, self.keys, self.owner, self.where = rows, keys, owner, where
        self.repaired_at = repaired_at
        """Where the store is, as commands take it."""
        self._logs: dict[str, SealedLog] = {}
        self._process = OwnProcess(where)
        self._committing = GroupCommit[_Append](where, self._commit)
        self.exclusive = self._committing.lock

    def log(self, name: str) -> SealedLog:
        self._process.check()
        with self._committing.lock:
            if name not in self._logs:
                self._logs[name] = SealedLog(self, name)
            return self._logs[name]

    def append(self, log: SealedLog, values: Sequence[bytes], *, last: bool) -> int:
        """Commit *values* together with whatever other threads are waiting to append."""
        self._process.check()  # before the lock, which another thread may have held when we were forked
        mine = _Append(log, values, last)
        self._committing.do(mine)
        return mine.first

    def _commit(self, batch: Sequence[_Append]) -> None:
        ends = {each.log: each.log.end for each in batch}
        ended = {log for log in ends if log.ended}  # what comes too late is decided here, where the order is
        asked: list[_Append] = []  # `list[_Append]()` raises and catches an error, at each push
        firsts: list[int] = []
        rows: list[Row] = []
        for each in batch:
            if each.log in ended:
                each.error = TooLate(f"{each.log.where} has ended: append to another one")
                continue
            row = each.log.sealed(first := ends[each.log], each.values)
            if len(row[3]) > failures.ROW_BYTES_MAX:  # which is no reason to refuse the others
                each.error = failures.too_large(each.log.where, f"{len(row[3]):,} bytes were to be appended at once")
                continue
            asked.append(each)
            firsts.append(first)
            rows.append(row)
            ends[each.log] = first + len(each.values)
            if each.last:
                ended.add(each.log)
        with unavailable(self.where):
            probe("log.before_commit")
            self.rows.insert(rows)
            probe("log.after_commit")
        for each, first in zip(asked, firsts, strict=True):
            each.first = first
        for log, end in ends.items():
            log.end = end
        for log in ended:
            log.ended = True

    def trim(self, log: SealedLog, upto: int) -> None:
        self._process.check()
        with self._committing.lock, unavailable(log.where):
            first = min(upto + 1, log.end)
            if first > log.first:
                self.rows.trim(log.name, first, log.sealed_base(first))
                log.first = first


class SealedLog:
    """One log by name."""

    def __init__(self, book: LogBook, name: str) -> None:
        self._book, self.name, self.where = book, name, f"{book.where}, log {name!r}"
        self.ended = False
        with unavailable(self.where):
            self.first = self._read_base()
            self.end = max(self.first, book.rows.end(name) or 0)

    def append(self, values: Sequence[bytes], *, last: bool = False) -> int:
        return self._book.append(self, values, last=last) if values else self.end

    def read(self, start: int, count_max: int) -> tuple[int, list[bytes]]:
        first, end = self.first, self.end
        if not first <= start <= end:
            self._refuse_position(start, first, end)
        values: list[bytes] = []
        wanted = min(count_max, end - start)
        while len(values) < wanted:
            values += self._some(start + len(values), wanted - len(values))
        return start, values

    def _some(self, start: int, count_max: int) -> list[bytes]:
        """Return at least one value from id *start* on."""
        values: list[bytes] = []
        with unavailable(self.where):
            # A row may hold one value: never ask for more rows than values.
            rows = self._book.rows.rows(self.name, start, min(count_max, 256))
        for first, count, blob in rows:
            position = start + len(values)
            if not first <= position < first + count:
                break
            values += self._opened(first, count, blob)[position - first : position - first + count_max - len(values)]
            if len(values) >= count_max:
                break
        if not values:
            self._refuse_gap(start)
        return values

    def trim(self, upto: int) -> None:
        self._book.trim(self, upto)

    def lost(self, start: int, behind: int) -> list[tuple[int, int]]:
        found, at = list[tuple[int, int]](), start
        for first, count, _ in self._whole(start):
            if first > at:
                found.append((at, first))
            at = max(at, first + count)
        return [*found, (at, behind)] if at < behind else found

    def fill(self, start: int, behind: int, value: bytes) -> None:
        book, missing = self._book, self.lost(start, behind)
        if not missing:
            return
        rows: list[Row] = [(self.name, *row) for row in self._whole(start)]
        for first, upto in missing:
            places = range(first, upto, FILL_MAX)
            rows += [self.sealed(at, [value] * min(FILL_MAX, upto - at)) for at in places]
        with book.exclusive, unavailable(self.where):
            if start < self.first:
                book.rows.trim(self.name, start, self.sealed_base(start))
            book.rows.insert(sorted(rows))
            self.first, self.end = min(self.first, start), max(self.end, behind)

    def _whole(self, start: int) -> Iterator[tuple[int, int, bytes]]:
        """Give the rows that hold an id from *start* on and are as they were written."""
        seen, at = -1, start
        while True:
            with unavailable(self.where):
                rows = [row for row in self._book.rows.rows(self.name, at, 256) if row[0] > seen]
            if not rows:
                return
            for first, count, blob in rows:
                with suppress(CheckpointRefused):
                    self._opened(first, count, blob)
                    if first + count > start:
                        yield first, count, blob
            seen = rows[-1][0]
            at = seen + 1

    def sealed(self, first: int, values: Sequence[bytes]) -> Row:
        data = self._seal("log", first, len(values), encode(list(values)))
        return self.name, first, len(values), data

    def sealed_base(self, first: int) -> bytes:
        return self._seal("log base", first, 0, b"")

    def _opened(self, first: int, count: int, blob: bytes) -> list[bytes]:
        values: list[bytes] = decode(self._unseal("log", first, count, blob))
        return values

    def _read_base(self) -> int:
        stored = self._book.rows.base(self.name)
        if stored is None:
            return 0
        first, blob = stored
        self._unseal("log base", first, 0, blob)
        return first

    def _seal(self, kind: str, first: int, count: int, payload: bytes) -> bytes:
        book, kind = self._book, f"{kind} {self.name}"
        return seal(payload, keys=book.keys, kind=kind, owner=book.owner, generation=first, index=count)

    def _unseal(self, kind: str, first: int, count: int, blob: bytes) -> bytes:
        book, kind, where = self._book, f"{kind} {self.name}", f"{self.where}, id {first}"
        with failures.or_repaired(book.repaired_at):
            return unseal(blob, keys=book.keys, kind=kind, owner=book.owner, generation=first, index=count, where=where)

    def _refuse_position(self, start: int, first: int, end: int) -> NoReturn:
        message = f"{self.where}: id {start} is not there, only {first} to {end - 1}; start at {first} or later"
        raise PositionUnavailable(message, wanted=start, first=first, end=end)

    def _refuse_gap(self, start: int) -> NoReturn:
        if start < self.first:
            self._refuse_position(start, self.first, self.end)
        what = f"id {start} is missing, though ids around it are there"
        error = CheckpointRefused(f"{self.where}: {what}", what=what, where=self.where)
        raise failures.repairable(error, self._book.repaired_at)
