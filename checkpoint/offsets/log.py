"""The durable log of an offset store: group commit, replay, compaction. What the records mean is the table's business.

A commit is a row appended to the log, sealed like everything durable; a table in memory answers every question. Threads
share their transactions (`checkpoint.sealed_log.group_commit`). Several processes may use one log: each reads, before
it answers, the rows that others have appended, so that its table is never behind; inside a transaction nothing can come
between. A compaction writes the whole table as one row and drops the rows before it. Rejected: a row per partition that
is overwritten (no history to look at, a write per partition), one process that owns the store (it would have to be
found again whenever it moves).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from checkpoint.failures import unavailable
from checkpoint.format.codec import decode, encode
from checkpoint.format.envelope import KeyRing, seal, unseal
from checkpoint.offsets.store import LeaseAuthority
from checkpoint.offsets.table import Charged, Draft, Entry, Key, Operation, Record, Table
from checkpoint.sealed_log.group_commit import Asked, GroupCommit
from reliable_rx.errors import CheckpointRefused, OffsetsLoading, StoreUnavailable
from reliable_rx.failpoints import probe

PAGE = 256
ENTRIES_MAX = 1_000_000
COMPACT_ROWS = 1_000
Row = tuple[int, int, bytes]
"""Number, 1 if it is the whole table, sealed records."""


class ReadRows(Protocol):
    """The rows of the log, as one transaction sees them."""

    def after(self, number: int, limit: int) -> Sequence[Row]:
        """Return the rows behind *number*, in order."""
        ...


class Rows(ReadRows, Protocol):
    """The same for the writer."""

    def append(self, row: Row) -> None: ...
    def drop_below(self, number: int) -> None: ...


class RowStore(Protocol):
    """Where the rows are kept."""

    def writing(self) -> AbstractContextManager[Rows]:
        """Give the rows in a transaction of their only writer, which is durable at the end or has not been."""
        ...

    def reading(self) -> AbstractContextManager[ReadRows]:
        """Give the rows as last committed."""
        ...


@dataclass(slots=True, eq=False)
class _Ask(Asked):
    operation: Operation
    answer: Any = None


class OffsetLog:
    """One log and its table. *where* names it for people; *compact_rows* is how long it may grow."""

    def __init__(
        self,
        rows: RowStore,
        leases: LeaseAuthority,
        *,
        keys: KeyRing,
        owner: str,
        where: str,
        clock: Callable[[], float],
        compact_rows: int,
        entries_max: int,
    ) -> None:
        self._rows, self._leases, self._keys, self._owner, self.where = rows, leases, keys, owner, where
        self._clock, self._compact_rows, self._entries_max = clock, compact_rows, entries_max
        self._table, self._seen, self._behind_compaction, self._loaded = Table(), 0, 0, False
        self._table_lock = threading.RLock()
        self._committing = GroupCommit[_Ask](where, self._commit, afterwards=self._compact_if_long)

    def load(self) -> None:
        """Replay the log. Until then whoever asks is told to come again."""
        with self._table_lock, unavailable(self.where), self._rows.reading() as rows:
            self._catch_up(rows)
        self._loaded = True

    @contextmanager
    def current(self) -> Iterator[Table]:
        """Give the table as of everything durable, also what other processes wrote."""
        self._check_loaded()
        with self._table_lock:
            with unavailable(self.where), self._rows.reading() as rows:
                self._catch_up(rows)
            yield self._table

    def ask(self, operation: Operation) -> Any:
        """Do *operation* in one transaction with whatever other threads wait for; return its answer when durable."""
        self._check_loaded()
        mine = _Ask(operation)
        self._committing.do(mine)
        return mine.answer

    def compact(self) -> None:
        """Write the table as one row and drop those before it. Tombstones stay for one round."""
        self._check_loaded()
        with self._committing.lock:
            self._compact()

    def _check_loaded(self) -> None:
        if not self._loaded:
            message = f"{self.where}: the log is still being read; ask again soon"
            raise OffsetsLoading(message, where=self.where)

    def _compact_if_long(self) -> None:
        if self._behind_compaction >= max(self._compact_rows, self._table.size):
            with suppress(StoreUnavailable):  # what was promised is durable without it
                self._compact()

    def _commit(self, batch: Sequence[_Ask]) -> None:
        with unavailable(self.where):
            probe("offsets.before_commit")
            with self._rows.writing() as rows:
                with self._table_lock:
                    self._catch_up(rows)
                    records = self._answers(batch)
                    number = self._seen + 1
                if records:
                    rows.append(self._sealed(number, 0, records))
                probe("offsets.mid_commit")
            probe("offsets.after_commit")
        if records:
            self._apply(number, 0, records)

    def _answers(self, batch: Sequence[_Ask]) -> list[Record]:
        """Let every operation see what those before it change; one that raises changes nothing."""
        settings: dict[str, Any] = {"now": self._clock(), "leases": self._leases}
        settings |= {"entries_max": self._entries_max, "where": self.where}
        draft = Draft(self._table, **settings)
        for each in batch:
            before = dict(draft.changes)
            try:
                each.answer = each.operation(draft)
            except Exception as error:
                each.error, draft.changes = error, before
        return list(draft.changes.items())

    def _compact(self) -> None:
        with unavailable(self.where):
            with self._rows.writing() as rows:
                with self._table_lock:
                    self._catch_up(rows)
                    number, kept = self._seen + 1, self._table.kept()
                rows.append(self._sealed(number, 1, kept))
                rows.drop_below(number)
                probe("offsets.mid_compaction")
            probe("offsets.after_compaction")
        self._apply(number, 1, kept)

    # -- replay

    def _catch_up(self, rows: ReadRows) -> None:
        with self._table_lock:
            while True:
                page = rows.after(self._seen, PAGE)
                for number, whole, blob in page:
                    if number <= self._seen or (number != self._seen + 1 and not whole):
                        self._refuse_gap(number)
                    self._apply(number, whole, self._opened(number, whole, blob))
                if len(page) < PAGE:
                    return
                probe("offsets.loading")

    def _apply(self, number: int, whole: int, records: Iterable[Record]) -> None:
        with self._table_lock:
            if number <= self._seen:
                return  # a reader was here between the commit and its return
            if whole:
                self._table = Table()
            self._table.apply(records)
            self._seen, self._behind_compaction = number, 0 if whole else self._behind_compaction + 1

    def _sealed(self, number: int, whole: int, records: Sequence[Record]) -> Row:
        # Plain tuples, so that the classes here are no part of the format.
        plain = encode([(key, (*value,)) for key, value in records])
        blob = seal(plain, keys=self._keys, kind="offsets", owner=self._owner, generation=number, index=whole)
        return number, whole, blob

    def _opened(self, number: int, whole: int, blob: bytes) -> list[Record]:
        where = f"{self.where}, row {number}"
        names: dict[str, Any] = {"kind": "offsets", "owner": self._owner, "where": where}
        return [
            _revived(*each) for each in decode(unseal(blob, keys=self._keys, generation=number, index=whole, **names))
        ]

    def _refuse_gap(self, found: int) -> None:
        what = f"row {self._seen + 1} is needed and the next one there is {found}; the rows between are lost"
        raise CheckpointRefused(f"{self.where}: {what}", what=what, where=self.where)


def _revived(key: Key, value: tuple[Any, ...]) -> Record:
    return key, Charged(*value) if key[1] is None else Entry(*value)
